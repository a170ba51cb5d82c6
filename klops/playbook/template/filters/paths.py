"""Filters for POSIX paths, which only look at the text, and tests that look at this machine's files."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from pathlib import Path
from typing import Any

from klops.playbook.template.filters.given import kind, listed, text, wrong


def path_join(value: Any) -> str:
    """The parts as one path; an absolute part drops those before it."""
    if isinstance(value, str):
        return value
    if not isinstance(value, (list, tuple)):
        raise wrong(f"path_join takes a list, not {kind(value)}")
    return posixpath.join(*map(text, value)) if value else ""


def commonpath(value: Any) -> str:
    """The longest path that all begin with."""
    try:
        return posixpath.commonpath([text(part) for part in listed("commonpath", value)])
    except ValueError as error:
        raise wrong(f"commonpath: {error}") from None


def _path(value: Any) -> Path:
    return Path(text(value))


def _same(value: Any, f2: Any) -> bool:
    """Whether both paths lead to one file."""
    try:
        return _path(value).samefile(_path(f2))
    except OSError as error:
        raise wrong(f"same_file: {error.filename}: {error.strerror}") from None


def _there(value: Any) -> bool:
    """Whether something is there, be it a link to nowhere."""
    return _path(value).is_symlink() or _path(value).exists()


def basename(value: Any) -> str:
    """The last part."""
    return posixpath.basename(text(value))


def dirname(value: Any) -> str:
    """All but the last part."""
    return posixpath.dirname(text(value))


def normpath(value: Any) -> str:
    """The path without ``.``, ``..`` and doubled slashes."""
    return posixpath.normpath(text(value))


def relpath(value: Any, start: Any = ".") -> str:
    """The path as seen from ``start``."""
    return posixpath.relpath(text(value), text(start))


def splitext(value: Any) -> tuple[str, str]:
    """The path without its extension, and that."""
    return posixpath.splitext(text(value))


def is_abs(value: Any) -> bool:
    """Whether the path begins at the root."""
    return posixpath.isabs(text(value))


def is_directory(value: Any) -> bool:
    """Whether a folder is there on this machine."""
    return _path(value).is_dir()


def is_file(value: Any) -> bool:
    """Whether a file is there on this machine."""
    return _path(value).is_file()


def is_link(value: Any) -> bool:
    """Whether a symbolic link is there on this machine."""
    return _path(value).is_symlink()


def exists(value: Any) -> bool:
    """Whether something is there on this machine; a link to nowhere isn't."""
    return _path(value).exists()


FILTERS: dict[str, Callable[..., Any]] = {
    "basename": basename,
    "commonpath": commonpath,
    "dirname": dirname,
    "normpath": normpath,
    "path_join": path_join,
    "relpath": relpath,
    "splitext": splitext,
}
TESTS: dict[str, Callable[..., bool]] = {
    "abs": is_abs,
    "directory": is_directory,
    "exists": exists,
    "file": is_file,
    "is_abs": is_abs,
    "is_dir": is_directory,
    "is_file": is_file,
    "is_link": is_link,
    "is_same_file": _same,
    "link": is_link,
    "link_exists": _there,
    "same_file": _same,
}
