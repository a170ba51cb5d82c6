"""Ports and HTTP, as seen from the host."""
