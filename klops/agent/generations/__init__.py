"""Generations: what ran on a host, as one: release, packages, patches and units."""
