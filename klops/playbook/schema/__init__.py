"""JSON schemas of playbooks, for editors."""
