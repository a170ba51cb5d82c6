"""Tasks that touch nothing on the host: messages, facts, conditions, pauses, includes."""
