"""klops' own log: structlog to standard error, secrets masked, level by ``-v``."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from klops.log import configure_with

if TYPE_CHECKING:
    from structlog.types import EventDict, Processor, WrappedLogger

#: -v given 0, 1, 2 times
_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


def redacting(redactor: Callable[[str], str]) -> Processor:
    """A processor that masks known secrets in every value of a log line."""

    def processor(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return {
            key: redactor(value) if isinstance(value, str) else _masked(value, redactor)
            for key, value in event.items()
        }

    return processor


def _masked(value: object, redactor: Callable[[str], str]) -> object:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return redactor(str(value))


def configure(verbose: int, redactor: Callable[[str], str], *, colours: bool = False) -> None:
    """Send klops' log, and what paramiko and others log, to standard error."""
    level = _LEVELS[min(verbose, len(_LEVELS) - 1)]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_MaskedFormatter(redactor, lambda: _formatter(redactor, colours)))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # paramiko tells every packet at DEBUG and every connection at INFO: one step quieter than klops itself
    logging.getLogger("paramiko").setLevel(
        logging.DEBUG if verbose > 2 else logging.CRITICAL if verbose < 2 else logging.INFO
    )
    configure_with(lambda: _configure_structlog(level))


def _shared() -> list[Processor]:
    import structlog

    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
    ]


def _configure_structlog(level: int) -> None:
    import structlog

    structlog.configure(
        processors=[*_shared(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _formatter(redactor: Callable[[str], str], colours: bool) -> logging.Formatter:
    import structlog

    renderer = structlog.dev.ConsoleRenderer(
        colors=colours, exception_formatter=structlog.dev.plain_traceback
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_shared(),
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            redacting(redactor),
            renderer,
        ],
    )


class _MaskedFormatter(logging.Formatter):
    """Masks the finished line once more: tracebacks are text only after formatting.

    The formatter inside is made for the first line: most commands have none.
    """

    def __init__(self, redactor: Callable[[str], str], make: Callable[[], logging.Formatter]) -> None:
        super().__init__()
        self._redactor = redactor
        self._inner = functools.cache(make)

    def format(self, record: logging.LogRecord) -> str:
        return self._redactor(self._inner().format(record))
