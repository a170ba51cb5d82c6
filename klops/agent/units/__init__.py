"""One unit: what it is told to be, what is known of it, how it starts, is watched and ends."""
