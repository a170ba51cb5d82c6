"""Playbook modules, one file each: probe what to read, plan typed steps, apply them."""
