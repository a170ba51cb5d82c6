"""Hosts, groups, variables and patterns; typed settings of a host; where a value came from."""

from klops.inventory.connection import Connection
from klops.inventory.fleet import Inventory
from klops.inventory.load import load
from klops.inventory.sources import default_sources

__all__ = ["Connection", "Inventory", "default_sources", "load"]
