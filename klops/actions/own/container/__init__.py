"""``klops.container``: made, started, adopted, made anew, removed."""
