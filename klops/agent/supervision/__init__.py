"""The launcher and the supervisor of all units, and the socket they are asked through."""
