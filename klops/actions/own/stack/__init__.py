"""``klops.stack``: pinned versions of Python packages in the container."""
