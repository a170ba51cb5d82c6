"""``klops.services``: the units of a host are what the settings ask for."""
