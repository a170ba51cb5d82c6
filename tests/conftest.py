"""What all tests share: the counts of the suite, gathered from all processes that run it, printed at the
end; no audit log and nothing kept in the home of whoever runs it; a umask that no test leaves to the next.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from klops.source import cache
from klops.ui.auditfile import OFF, VARIABLE
from tests.oracle import tally


@pytest.fixture(scope="session", autouse=True)
def _nothing_at_home() -> Iterator[None]:
    """For this process and all that it starts; who tests the log or what is kept names a place of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, OFF)
        patch.setenv(cache.VARIABLE, cache.OFF)
        yield


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    """The agent's verbs set one for the whole of their process, which here has other tests to run."""
    mask = os.umask(0o022)
    os.umask(mask)
    yield
    os.umask(mask)


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
