"""Programs that a playbook runs on the host."""
