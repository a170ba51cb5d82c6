"""Cards: what xpu-smi says, who is who, and which to put a service on. Pure, standard library only."""
