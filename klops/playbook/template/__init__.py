"""Jinja2 as playbooks use it: scopes, filters, tests, lookups, and what is not known yet."""
