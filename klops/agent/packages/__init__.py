"""Distributions of the container's Python and patches of their files: read and changed."""
