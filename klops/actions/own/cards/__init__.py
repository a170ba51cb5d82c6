"""``klops.cards``: which cards of a host work, and which are kept out of service."""
