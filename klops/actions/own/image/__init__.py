"""``klops.image``: the container's image, brought to the host."""
