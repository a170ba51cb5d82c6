"""Going back to an earlier generation."""
