"""uv, the installer: where it is, how it is asked, what it says it would change."""

from __future__ import annotations

import os
import re
import shutil
from typing import Mapping, NamedTuple, Sequence

from klops.agent.errors import VerbError
from klops.agent.packages import names

#: A line of what changes: removed, installed, or both with one version.
_CHANGE = re.compile(r"\s*[-+~] (?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==\S+")
#: A line of what it is at.
_PROGRESS = re.compile(r"(Using Python|Resolved|Prepared|Uninstalled|Installed|Audited|Checked) ")
#: Name and password within a URL.
_LOGIN = re.compile(r"(?<=://)[^/\s]+@")


class Asked(NamedTuple):
    """A pinned distribution. ``check_filename``: the name of its wheel must say the version that it has."""

    name: str
    version: str
    no_deps: bool
    check_filename: bool


class Source(NamedTuple):
    """Where from: an index (a URL, perhaps with a password), a folder of wheels in the container, or both;
    without either as uv is configured there. ``options``: more words for uv."""

    index_url: str | None
    wheel_dir: str | None
    options: tuple[str, ...]


def find(python: str) -> str | None:
    """The program: beside the interpreter, on PATH, or where its installer puts it."""
    candidates = [os.path.join(os.path.dirname(python), "uv"), shutil.which("uv")]
    candidates.append(os.path.join(os.path.expanduser("~"), ".local/bin/uv"))
    return next((path for path in candidates if path and os.access(path, os.X_OK)), None)


def needed(python: str) -> str:
    """The same. Raises :class:`VerbError` when there is none."""
    found = find(python)
    if found is None:
        raise VerbError(
            "uv-missing",
            f"there is no uv beside {python}, on PATH or in ~/.local/bin",
            "put the program uv into the image, or copy it beside that Python",
        )
    return found


def groups(asked: Sequence[Asked]) -> list[list[Asked]]:
    """Those that can go in one call; with dependencies first, as what has none asked for must win."""
    kinds: dict[tuple[bool, bool], list[Asked]] = {}
    for one in asked:
        kinds.setdefault((one.no_deps, not one.check_filename), []).append(one)
    return [kinds[kind] for kind in sorted(kinds)]


def argv(
    program: str, python: str, group: Sequence[Asked], source: Source, installed: Mapping[str, str]
) -> list[str]:
    """The command that installs a group. ``installed``: versions by name."""
    words = [program, "pip", "install", "--python", python]
    if group[0].no_deps:
        words.append("--no-deps")
    if source.wheel_dir is not None:
        words += ["--find-links", source.wheel_dir, *([] if source.index_url else ["--no-index"])]
    words += source.options
    for one in group:
        # to uv a requirement without a local part (+cu128) is met by any: what is there must not do then
        have = installed.get(one.name)
        if have is None or names.same(have, one.version):
            continue
        if names.same(names.public(have), names.public(one.version)):
            words += ["--reinstall-package", one.name]
    # where a wheel's name is wrong it mostly lacks the local part, and uv chooses by the name
    return words + [
        f"{one.name}=={one.version if one.check_filename else names.public(one.version)}" for one in group
    ]


def environment(python: str, group: Sequence[Asked], source: Source) -> dict[str, str]:
    """What uv runs with; an index is told here, as its URL may hold a password."""
    made = {**os.environ, "NO_COLOR": "1", "UV_NO_PROGRESS": "1", "UV_PYTHON_DOWNLOADS": "never"}
    made["PATH"] = f"{os.path.dirname(python)}:{made.get('PATH', os.defpath)}"
    if source.index_url is not None:
        # the first for versions of uv before 0.4.23
        made.update(UV_INDEX_URL=source.index_url, UV_DEFAULT_INDEX=source.index_url)
    if not group[0].check_filename:
        made["UV_SKIP_WHEEL_FILENAME_CHECK"] = "1"
    return made


def changed(line: str) -> str | None:
    """The distribution that a line says is (or would be) changed, by its compared name."""
    found = _CHANGE.match(line)
    return None if found is None else names.normal(found.group("name"))


def complaint(said: str) -> str:
    """What it says of a failure, without what it says of its progress before."""
    lines = said.splitlines()
    return "\n".join([line for line in lines if not _PROGRESS.match(line)] or lines)


def shown(line: str) -> str:
    """A line without names and passwords of URLs."""
    return _LOGIN.sub("***@", line)
