"""What a diagnosis found, as text, as a page and as rows. Pure: objects of the contract in, text out.

Everything that came from a host may be any text at all, and is made harmless for where it goes.
"""
