"""Files, folders and links on the host, and between the host and the control node."""
