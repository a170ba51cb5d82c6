"""What the tree is to be for the container: its folder somewhere, or an installed package. Pure."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Sequence

from klops.agent.errors import VerbError
from klops.source.manifest import Entry
from klops.source.manifest.paths import problem

SITE, PATH = "site-packages", "pythonpath"
_PACKAGE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*\Z")
#: Folders with Python in them that nobody installs.
_NO_PACKAGES = ("tests", "test", "docs", "doc", "examples", "benchmarks", "tools", "scripts")
_INIT = "/__init__.py"


class Target(NamedTuple):
    """``root``, an absolute path; or ``package``, at ``path`` within the tree, and how it is found."""

    root: str = ""
    package: str = ""
    path: str = ""
    place: str = SITE

    def as_json(self) -> dict[str, str]:
        """As it is asked for."""
        if self.root:
            return {"root": self.root}
        return {"package": self.package, "path": self.path, "place": self.place}

    @property
    def folder(self) -> str:
        """Of a package that is found by PYTHONPATH: the folder within the tree that has to stand there."""
        parts = self.package.split(".")
        return "/".join(self.path.split("/")[: -len(parts)])


def read(values: Any) -> list[Target]:
    """Targets as they are asked for. Raises :class:`VerbError`."""
    if not isinstance(values, list):
        raise _bad("targets is no list")
    return [_read(value) for value in values]


def _read(value: Any) -> Target:
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise _bad(f"{value!r} is no object of texts")
    if set(value) == {"root"}:
        root = str(value["root"]).rstrip("/")
        if not root.startswith("/") or "\0" in root or ".." in root.split("/"):
            raise _bad(f"root {value['root']!r} is no absolute path")
        return Target(root=root)
    package = str(value.get("package", ""))
    if set(value) - {"package", "path", "place"} or not _PACKAGE.match(package):
        raise _bad(f"{value!r} has neither root nor package")
    target = Target("", package, value.get("path", package.replace(".", "/")), value.get("place", SITE))
    if problem(target.path) is not None or target.place not in (SITE, PATH):
        raise _bad(f"{value!r} has no proper path or place")
    if target.place == PATH and target.path.split("/")[-len(package.split(".")) :] != package.split("."):
        raise _bad(f"{package} can't be found at {target.path} by PYTHONPATH: the folder has another name")
    return target


def _bad(what: str) -> VerbError:
    return VerbError("usage", f"not a target: {what}", "klops and the agent are of different versions?")


def packages(entries: Sequence[Entry]) -> list[Target]:
    """Packages at the top of a tree or in its ``src``, other than its tests, documents and tools."""
    found = []
    for entry in entries:
        path = entry.path[: -len(_INIT)]
        name = path[len("src/") :] if path.startswith("src/") else path
        if (
            entry.path.endswith(_INIT)
            and _PACKAGE.match(name)
            and "." not in name
            and name not in _NO_PACKAGES
        ):
            found.append(Target("", name, path, PATH))
    return found


def holds(entries: Sequence[Entry], path: str) -> bool:
    """Whether a tree has a folder."""
    return any(entry.path.startswith(path + "/") for entry in entries)
