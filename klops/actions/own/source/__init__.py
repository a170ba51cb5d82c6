"""``klops.source``: the source tree of a repository of the control node, as a release on the host."""
