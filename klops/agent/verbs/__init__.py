"""What the agent is asked to do, and what it answers."""
