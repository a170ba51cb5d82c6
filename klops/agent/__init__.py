"""The far side: what runs inside the container. Python 3.8 syntax, standard library only."""
