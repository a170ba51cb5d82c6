"""Playbooks that ansible-playbook and klops run on the same scratch hosts, and what they make of them."""
