"""A place where commands run: ssh, local, inside a container, or a fake for tests."""
