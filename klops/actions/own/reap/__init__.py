"""``klops.reap``: what units left behind is ended, what is somebody else's is named."""
