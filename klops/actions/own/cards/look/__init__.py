"""Reads and findings about cards: what they are, whether they open, who holds them."""
