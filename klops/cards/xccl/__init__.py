"""Which cards work together: what is tested in which order, what came of it, and what follows. Pure."""
