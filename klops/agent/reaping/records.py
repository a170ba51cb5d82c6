"""What a clean-up leaves to be read: a line in ``ROOT/reap.jsonl``, and metrics for node-exporter."""

from __future__ import annotations

import os
import time
from typing import Any, Mapping

from klops.agent import store

#: Bytes after which the lines become ``reap.jsonl.1``, in place of those before: some thousand runs.
LONGEST = 1 << 20
#: Processes that a line names; the others are counted.
MOST = 50
_COUNTED = ("unowned", "foreign", "unsupervised", "unknown", "observers")
#: Metric, help, key of a line; each a gauge of the last run.
_METRICS = (
    ("last_run_timestamp_seconds", "When the last clean-up ended, since the epoch.", "at"),
    ("success", "Whether it could do and write down what was due, and nobody lives on.", "ok"),
    ("orphans", "Processes of units that no unit owned.", "orphans"),
    ("ended", "Processes that it ended.", "ended"),
    ("unkillable", "Processes that outlived KILL.", "unkillable"),
    ("unowned", "Holders of cards in klops' container that are nobody's.", "unowned"),
    ("foreign", "Holders of cards outside klops' container.", "foreign"),
    ("unknown", "Processes of which it could not see whether they hold a card.", "unknown"),
    ("seconds", "How long it took.", "seconds"),
)


def line(result: Mapping[str, Any], view: str, run: str, seconds: float) -> dict[str, Any]:
    """What is kept of a run; ``result`` is what the verb prints, ``{"error": ...}`` too.

    Who could not be looked at is counted, and no failure by itself, as for ``klops reap``: most of them wait
    for a disk. Whether one of them holds a card its memory tells, which the agent doesn't read.
    """
    head = {"schema": store.SCHEMA, "at": round(time.time(), 3), "view": view, "run": run}
    tail = {"seconds": round(seconds, 3)}
    if "error" in result:
        return {**head, "ok": False, "error": result["error"], **tail}
    processes = result["processes"]
    outcomes = [one["outcome"] for one in processes]
    return {
        **head,
        "ok": not {"alive", "unkillable"} & set(outcomes) and not result["trouble"],
        "orphans": len(processes),
        "ended": outcomes.count("gone"),
        "unkillable": outcomes.count("unkillable"),
        **{name: len(result[name]) for name in _COUNTED},
        "removed": sum(one["action"] == "removed" for one in result["shm"]),
        "trouble": result["trouble"],
        "processes": [
            {key: one[key] for key in ("pid", "cpid", "start", "name", "unit", "cards", "action", "outcome")}
            for one in processes[:MOST]
        ],
        **tail,
    }


def metrics(entry: Mapping[str, Any], root: str) -> str:
    """The text that node-exporter reads. What a run that did nothing can't know is left out.

    >>> print(metrics({"view": "host", "at": 1.5, "ok": False, "seconds": 0.25}, "/k").splitlines()[2])
    klops_reap_last_run_timestamp_seconds{root="/k",view="host"} 1.5
    """
    named = os.fsencode(root).decode("utf-8", "replace")
    escaped = named.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    label = f'{{root="{escaped}",view="{entry["view"]}"}}'
    lines = []
    for name, told, key in _METRICS:
        if key in entry:
            full, value = f"klops_reap_{name}", entry[key]
            lines += [f"# HELP {full} {told}", f"# TYPE {full} gauge"]
            lines.append(f"{full}{label} {int(value) if isinstance(value, bool) else value}")
    return "\n".join(lines) + "\n"


def keep(root: str, entry: Mapping[str, Any]) -> None:
    """Write both; the metrics of the two views beside each other. Raises ``OSError``."""
    path = root + "/reap.jsonl"
    store.append_line(path, dict(entry))
    store.rotate(path, LONGEST)
    folder = root + "/metrics"
    os.makedirs(folder, mode=0o755, exist_ok=True)
    # its reader is another user, and would take a file with another ending for none
    store.write_text(f"{folder}/klops_reap_{entry['view']}.prom", metrics(entry, root), 0o644)
