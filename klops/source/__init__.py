"""The source tree that a host gets: what a commit holds, by one rule whatever the control node is."""
