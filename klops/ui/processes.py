"""The processes of containers as tables. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from klops.errors import KlopsError
from klops.ui.prose import Trimmed
from klops.ui.status import each_host, ranges

#: heading -> key of a process
_COLUMNS = {
    "pid": "pid",
    "cpid": "cpid",
    "ppid": "ppid",
    "unit": "unit",
    "state": "state",
    "rss MiB": "rss_mib",
    "cards": "cards",
    "user": "user",
    "title": "title",
}
_RIGHT = frozenset({"pid", "cpid", "ppid", "rss MiB"})


def processes_view(
    hosts: Mapping[str, Mapping[str, Any] | KlopsError],
    redactor: Callable[[str], str],
    *,
    full: bool = False,
) -> RenderableType:
    """One table a host; a host that could not be read shows why.

    A title too long for a terminal is cut, unless it is wanted in ``full``.
    """

    def parts(name: str, found: Mapping[str, Any], text: Callable[[str], str]) -> Iterator[RenderableType]:
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        for heading in _COLUMNS:
            wide = heading == "title"
            table.add_column(
                heading, justify="right" if heading in _RIGHT else "left", no_wrap=not wide, overflow="fold"
            )
        for process in found["processes"]:
            cells = [Text(text(_cell(process.get(key)))) for key in _COLUMNS.values()]
            if not full:
                cells[-1].no_wrap, cells[-1].overflow = True, "ellipsis"
            table.add_row(*cells)
        yield Trimmed(table)

    return each_host(hosts, redactor, parts)


def _cell(value: Any) -> str:
    if value is None or value == []:
        return "-"
    if isinstance(value, list):
        return _nodes([str(item).rpartition("/")[2] for item in value])
    if isinstance(value, float):
        return f"{value:.0f}"
    # a renamed process pads its title with what was there before
    return str(value).strip()


def _nodes(names: Sequence[str]) -> str:
    """``xpu0``, ``xpu1``, ``xpu2``, ``xpuctrl`` -> ``xpu0-2,xpuctrl``."""
    found: dict[str, list[int]] = {}
    for name in names:
        stem = name.rstrip("0123456789")
        found.setdefault(stem, []).extend([int(name[len(stem) :])] if name != stem else [])
    return ",".join(f"{stem}{ranges(sorted(numbers))}" for stem, numbers in found.items())
