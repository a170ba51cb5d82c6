"""The step that has cards tested: what is asked, and what follows."""
