"""Releases on the far side: what lies there, receiving and building another, and making one the current."""
