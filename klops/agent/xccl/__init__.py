"""Collectives of real ranks: one process a card, asked as the plan of a diagnosis wants it."""
