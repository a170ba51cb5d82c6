"""klops' own log, for whatever layer has something to say that is no result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_waiting: list[Callable[[], None]] = []


def configure_with(work: Callable[[], None]) -> None:
    """Have ``work`` configure structlog when the first logger is asked for.

    Most commands log nothing, and structlog takes a good part of the time that they take to start.
    """
    _waiting[:] = [work]


def get_logger(name: str) -> Any:
    """A structlog logger.

    Until :func:`klops.ui.logs.configure` or an embedding program configures structlog, it writes to Python's
    ``logging``, which shows warnings on standard error. structlog's own default would print to standard
    output, which is for results alone.
    """
    import structlog

    while _waiting:
        _waiting.pop()()
    if not structlog.is_configured():
        structlog.configure(
            processors=[
                structlog.stdlib.add_log_level,
                structlog.dev.ConsoleRenderer(
                    colors=False, exception_formatter=structlog.dev.plain_traceback
                ),
            ],
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.stdlib.BoundLogger,
            cache_logger_on_first_use=False,
        )
    return structlog.get_logger(name)
