"""The table at the end of a run, and its one line. Pure."""

from __future__ import annotations

from collections.abc import Callable

from rich import box
from rich.table import Table
from rich.text import Text

from klops.playbook.results import RECAP_KEYS, RunResult

_STYLES = {"changed": "yellow", "failed": "bold red", "unreachable": "bold red", "unknown": "blue"}


def seconds_by_host(result: RunResult) -> dict[str, float]:
    """Seconds that tasks took, summed by host."""
    total = dict.fromkeys(result.hosts, 0.0)
    for play in result.plays:
        for task in play.tasks:
            for host, done in task.hosts.items():
                total[host] = total.get(host, 0.0) + done.seconds
    return total


def recap_table(result: RunResult, redactor: Callable[[str], str]) -> Table:
    """One row a host: counts by status, seconds, remote commands."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=0)
    table.add_column("host")
    for key in RECAP_KEYS:
        table.add_column(key, justify="right")
    table.add_column("seconds", justify="right")
    table.add_column("commands", justify="right")
    seconds = seconds_by_host(result)
    for host, counts in result.recap().items():
        cells = [
            Text(str(counts[key]), style=_STYLES.get(key, "") if counts[key] else "") for key in RECAP_KEYS
        ]
        table.add_row(
            Text(redactor(host)),
            *cells,
            f"{seconds.get(host, 0.0):.1f}",
            str(result.remote_commands.get(host, 0)),
        )
    return table


def summary(result: RunResult) -> str:
    """The last line of a run."""
    hosts = len(result.hosts)
    failed = sorted(result.errors)
    changes = sum(counts["changed"] for counts in result.recap().values())
    unknown = sum(counts["unknown"] for counts in result.recap().values())
    took = f"{result.seconds:.1f} s"
    if result.interrupted:
        return f"interrupted after {took}"
    if failed:
        return (
            f"failed: {len(failed)} of {hosts} host{'s' if hosts != 1 else ''} ({', '.join(failed)}), {took}"
        )
    counted = f"{hosts} host{'s' if hosts != 1 else ''}"
    if result.check:
        if not changes and not unknown:
            return f"ok: {counted}, nothing would change, {took}"
        more = f", {unknown} known only when applied" if unknown else ""
        return f"ok: {counted}, {changes} would change{more}, {took}"
    if not changes:
        return f"ok: {counted}, nothing changed, {took}"
    return f"ok: {counted}, {changes} changed, {took}"
