"""What goes on the path of a real torch on a rehearsal host, so that faults of cards reach it."""
