"""Load playbooks, template them, run plays over hosts; events and results."""
