"""Generations of a host: what ran there, as one."""
