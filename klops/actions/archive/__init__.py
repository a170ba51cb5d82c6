"""``unarchive``: archives of the control node and of the host."""
