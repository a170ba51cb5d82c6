"""Which cards a service gets: legal sizes, groups, heads and weights. Pure."""
