"""What a release consists of, entry by entry. Pure, standard library only, Python 3.8: the agent has it."""

from klops.source.manifest.entry import FILE, LINK, Entry
from klops.source.manifest.release import Release, digest

__all__ = ["FILE", "LINK", "Entry", "Release", "digest"]
