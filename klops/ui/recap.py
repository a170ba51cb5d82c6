"""The table at the end of a run, and its one line. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.cells import cell_len, set_cell_size
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


def recap_lines(result: RunResult, redactor: Callable[[str], str]) -> Iterator[Text]:
    """A heading, a rule and one line a host: counts by status, seconds, remote commands.

    Lines and no rich table: measuring one of hundreds of hosts takes longer than running their tasks.
    """
    seconds = seconds_by_host(result)
    rows = [["host", *RECAP_KEYS, "seconds", "commands"]]
    for host, counts in result.recap().items():
        took, commands = f"{seconds.get(host, 0.0):.1f}", str(result.remote_commands.get(host, 0))
        rows.append([redactor(host), *(str(counts[key]) for key in RECAP_KEYS), took, commands])
    widths = [max(cell_len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for number, cells in enumerate(rows):
        heading = "" if number else "bold"
        line = Text(set_cell_size(cells[0], widths[0]), heading, no_wrap=True, overflow="ignore")
        for key, cell, width in zip(rows[0][1:], cells[1:], widths[1:], strict=True):
            line.append("  " + cell.rjust(width), _STYLES.get(key, "") if number and cell != "0" else "")
        yield line
        if not number:
            yield Text("─" * line.cell_len, no_wrap=True, overflow="ignore")


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
    ignored = sum(counts["ignored"] for counts in result.recap().values())
    end = f"{f', {ignored} ignored' if ignored else ''}, {took}"
    if result.check:
        if not changes and not unknown:
            return f"ok: {counted}, nothing would change{end}"
        more = f", {unknown} known only when applied" if unknown else ""
        return f"ok: {counted}, {changes} would change{more}{end}"
    if not changes:
        return f"ok: {counted}, nothing changed{end}"
    return f"ok: {counted}, {changes} changed{end}"
