"""What tools and the kernel say of cards without any load, and what is to be thought of it. Pure."""
