"""What the suite counts, gathered from all processes that run its tests and printed at the end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle import tally


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process that works for another hands over what it counted."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["tally"] = tally.dump()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """One of those processes ended; one that crashed has nothing to hand over."""
    output = getattr(node, "workeroutput", None)
    if output is not None and "tally" in output:
        tally.add(output["tally"])


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The counts of the suite."""
    for line in tally.lines():
        terminalreporter.write_line(line)
