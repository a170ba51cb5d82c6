"""Everywhere klops sends a signal: each place leaves a line in an audit log, or says here why it needs none.

And nothing that klops sends to a host looks for processes by a pattern.
"""

from __future__ import annotations

import re
from pathlib import Path

import klops

PACKAGE = Path(klops.__file__).parent
#: What sends a signal, in Python and in a shell.
SENDERS = re.compile(
    r"os\.kill\(|os\.killpg\(|pidfd_send_signal\(|\.send_signal\(|\.terminate\(\)|\.kill\(\)|\.send\(signal\."
    r"|(?:^|[;&|({]|\bsudo -n|\bthen|\bdo)\s*kill (?:-|\"|'|\$|0\b)"
    r"|\btimeout (?:-\w|\{|\$)",
    re.MULTILINE,
)
#: By file: how many places it has, and where their lines come from.
KNOWN = {
    "agent/audit.py": (1, "signal_child writes it"),
    "agent/processes/identity.py": (3, "Handle.send, called by Audit.signal alone, and what that calls"),
    "remote/script.py": (2, "noted, of a command on the host that is to end"),
    "remote/insidescripts.py": (3, "noted; the reader of the script's own needs none"),
    "remote/bounded.py": (2, "none: timeout(1), of a read that is late and of its reader"),
    "remote/local.py": (1, "noted, of a shell that outlived its end"),
    "inventory/programs.py": (2, "none: a program of the inventory, on the machine klops runs on"),
    "source/git/command.py": (2, "none: git, on the machine klops runs on"),
    "actions/own/image/following.py": (2, "none: the script's own helper"),
    "commands/hostpass/basics.py": (1, "note, of a docker client of the script's own"),
}


def _sources() -> dict[str, str]:
    return {
        str(path.relative_to(PACKAGE)): path.read_text()
        for path in sorted(PACKAGE.rglob("*.py"))
        # the rehearsal host is no part of what runs on a real one
        if path.relative_to(PACKAGE).parts[0] != "sim"
    }


def test_every_sender_of_signals_is_known() -> None:
    found = {name: len(SENDERS.findall(text)) for name, text in _sources().items()}
    assert {name: count for name, count in found.items() if count} == {
        name: count for name, (count, _) in KNOWN.items()
    }


def test_no_handle_is_used_but_through_the_audit_log() -> None:
    users = [
        name
        for name, text in _sources().items()
        if name.startswith("agent/") and re.search(r"\bhandle\w*\.send\(|launcher\.send\(", text)
    ]
    assert users == ["agent/audit.py"]


def test_row_B10_nothing_that_is_sent_looks_for_processes_by_a_pattern() -> None:
    wanted = re.compile(r"\b(pkill|killall|pgrep|pidof|fuser -\S*k|kill\s+-1\b|skill)\b")
    assert not {
        (name, found[0]) for name, text in _sources().items() for found in [wanted.search(text)] if found
    }
