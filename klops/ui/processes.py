"""The processes of containers as tables. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from klops.errors import KlopsError
from klops.ui.plain import printable

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
    hosts: Mapping[str, Mapping[str, Any] | KlopsError], redactor: Callable[[str], str]
) -> RenderableType:
    """One table a host; a host that could not be read shows why."""
    parts: list[RenderableType] = []
    for name, found in hosts.items():
        parts.append(Text(printable(redactor(name)), style="bold"))
        if isinstance(found, KlopsError):
            parts.append(Text(printable(redactor(f"  error: {found.message}")), style="red"))
            if found.hint:
                parts.append(Text(printable(redactor(f"  fix: {found.hint}"))))
            continue
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
        for heading in _COLUMNS:
            wide = heading == "title"
            table.add_column(
                heading, justify="right" if heading in _RIGHT else "left", no_wrap=not wide, overflow="fold"
            )
        for process in found["processes"]:
            table.add_row(*(Text(printable(redactor(_cell(process.get(key))))) for key in _COLUMNS.values()))
        parts.append(table)
    return Group(*parts)


def _cell(value: Any) -> str:
    if value is None or value == []:
        return "-"
    if isinstance(value, list):
        return ",".join(str(item).rsplit("/", 1)[-1] for item in value)
    if isinstance(value, float):
        return f"{value:.0f}"
    # a renamed process pads its title with what was there before
    return str(value).strip()
