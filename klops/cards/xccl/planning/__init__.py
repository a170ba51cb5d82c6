"""Which tests in which order, and what is known so far."""
