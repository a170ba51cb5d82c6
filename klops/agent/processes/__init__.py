"""Processes of a host or a container: who they are, what they hold, which of them listen."""
