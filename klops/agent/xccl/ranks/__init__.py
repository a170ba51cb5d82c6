"""Rank processes: their own program, and starting, asking and ending them."""
