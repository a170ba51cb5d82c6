"""What a clean-up came to, as tables. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from klops.errors import KlopsError
from klops.ui.prose import Prose, Trimmed
from klops.ui.status import each_host, failed_host, ranges

_COLUMNS = ("who", "pid", "start", "name", "user", "container", "unit", "cards", "MiB", "state", "outcome")
_RIGHT = frozenset({"pid", "start", "MiB"})
#: list of the result -> what its processes are called
_WHO = {
    "processes": "left behind",
    "unowned": "unowned",
    "foreign": "foreign",
    "unsupervised": "unsupervised",
    "unseen": "unreadable",
    "observers": "observer",
}
_STYLES = {"gone": "green", "alive": "bold red", "unkillable": "bold red", "skipped": "yellow"}


def reap_view(
    hosts: Mapping[str, Mapping[str, Any] | KlopsError],
    redactor: Callable[[str], str],
    *,
    errors: Mapping[str, KlopsError] | None = None,
    command: Callable[[str], str] = "klops reap {}".format,
    check: bool = False,
) -> RenderableType:
    """One table a host. ``errors``: of hosts of which something was seen all the same.

    ``command``: the command line that cleans up a host. ``check``: nothing was done.
    """

    def parts(name: str, found: Mapping[str, Any], text: Callable[[str], str]) -> Iterator[RenderableType]:
        error = (errors or {}).get(name)
        yield from _host(command(name), found, text, check=check, failed=error is not None)
        if error is not None:
            yield from failed_host(name, error, redactor)[1:]

    return each_host(hosts, redactor, parts)


def _host(
    command: str, found: Mapping[str, Any], text: Callable[[str], str], *, check: bool, failed: bool
) -> list[RenderableType]:
    rows = [(who, process) for key, who in _WHO.items() for process in found.get(key) or ()]
    parts: list[RenderableType] = [Trimmed(_table(rows, text, check=check))] if rows else []
    parts += [Prose(text(f"  {line}")) for line in _lines(command, found, failed=failed)]
    return parts


def _table(
    rows: Sequence[tuple[str, Mapping[str, Any]]], text: Callable[[str], str], *, check: bool
) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in _COLUMNS:
        wide = heading in ("name", "outcome")
        table.add_column(
            heading, justify="right" if heading in _RIGHT else "left", no_wrap=not wide, overflow="fold"
        )
    for who, process in rows:
        outcome = _outcome(process, check=check)
        cells = [
            who,
            _or_dash(process.get("pid")),
            _or_dash(process.get("start")),
            str(process.get("name") or "").strip(),
            _or_dash(process.get("user")),
            str(process.get("container") or "")[:12] or "-",
            _or_dash(process.get("unit")),
            # where xpu-smi doesn't tell the number of a card it has the name of its node
            ranges(process.get("cards") or ()) or ",".join(process.get("nodes") or ()) or "-",
            _or_dash(process.get("memory_mib")),
            _or_dash(process.get("state")),
            outcome,
        ]
        style = _STYLES.get(str(process.get("outcome")), "") if who == _WHO["processes"] else ""
        table.add_row(
            *(Text(text(cell), style=style if at == len(cells) - 1 else "") for at, cell in enumerate(cells))
        )
    return table


def _or_dash(value: Any) -> str:
    return "-" if value is None or value == "" else str(value)


def _young(process: Mapping[str, Any]) -> str:
    """The agent's words for one that is too young to be ended; "" for others."""
    parts = str(process.get("reason") or "").split("; ")
    return next((part for part in parts if part.startswith("only ") and " s old" in part), "")


def _outcome(process: Mapping[str, Any], *, check: bool) -> str:
    """What became of a process, how and why; with ``check`` what would."""
    reason, outcome = str(process.get("reason") or ""), str(process.get("outcome") or "")
    signal = str(process.get("action") or "none")
    young = _young(process)
    if outcome == "skipped" and young:
        rest = "; ".join(part for part in reason.split("; ") if part != young)
        return "; ".join(filter(None, (f"spared: {young}", rest)))
    if outcome == "skipped" and check and signal != "none":
        return f"would be ended ({signal.upper()})" + (f": {reason}" if reason else "")
    if outcome in ("", "skipped"):
        return reason or "left alone"
    how = f" ({signal.upper()})" if signal != "none" else ""
    return f"{outcome}{how}: {reason}" if reason else f"{outcome}{how}"


def _lines(command: str, found: Mapping[str, Any], *, failed: bool) -> list[str]:
    """What is said below the table."""
    lines = []
    shm = found.get("shm") or ()
    due = [one for one in shm if str(one.get("why")).endswith("would be removed")]
    unsure = failed or due or found.get("unseen") or found.get("unsupervised")
    if not found.get("processes") and not unsure:
        lines.append("no process is left behind")
    young = sum(1 for process in found.get("processes") or () if _young(process))
    if young:
        lines.append(f"{young} too young to be ended; whatever its age: {command} --grace 0")
    if found.get("view") == "container":
        lines.append("only the container was looked at: who else holds a card of this host is not known")
    lines += [
        f"to end {process.get('name')} (pid {process['pid']}) as well: "
        f"{command} --include-unowned {process['pid']}:{process.get('start')}"
        for process in found.get("unowned") or ()
        if process.get("pid") is not None
    ]
    lines += [f"would be removed: {one.get('path')} ({one.get('bytes')} bytes)" for one in due]
    removed = [one for one in shm if one.get("action") == "removed"]
    lines += [f"removed: {one.get('path')} ({one.get('bytes')} bytes): {one.get('why')}" for one in removed]
    others = len(shm) - len(removed) - len(due)
    if others:
        lines.append(f"{others} other files of shared memory and sockets: see -o json")
    lines += [
        f"{one.get('count')} zombies that {one.get('name') or 'their parent'}"
        f" (pid {one.get('cpid')} in the container) does not reap"
        for one in found.get("zombies") or ()
    ]
    if found.get("freed_mib"):
        lines.append(f"freed: {found['freed_mib']} MiB")
    return lines
