"""Releases laid below a site's root by hand, for tests of what runs on them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.sim.agent.site import Site


def lay(site: Site, name: str, commit: str = "c0ffee" * 6 + "cafe") -> Path:
    """A release with one module, ``which_release``, whose ``NAME`` is the release's; returns its folder."""
    tree = site.root / "releases" / name
    (tree / "src").mkdir(parents=True)
    (tree / "src" / "which_release.py").write_text(f"NAME = {name!r}\n")
    head = {"schema": 1, "name": name, "digest": "0" * 64, "about": {"commit": commit}, "entries": 0}
    (tree.parent / f"{name}.json").write_text(json.dumps(head) + "\n")
    return tree


def make_current(site: Site, name: str) -> None:
    """Swap the link."""
    new = site.root / "releases" / "new"
    new.symlink_to(name)
    new.replace(site.root / "releases" / "current")
