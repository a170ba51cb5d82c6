"""Hosts, groups, variables and patterns; typed settings of a host; where a value came from."""

from klops.inventory.connection import Connection
from klops.inventory.fleet import Inventory
from klops.inventory.load import default_sources, load

__all__ = ["Connection", "Inventory", "default_sources", "load"]
