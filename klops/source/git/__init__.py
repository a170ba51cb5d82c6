"""Git on the control node, asked so that neither the user's configuration nor ours changes anything."""
