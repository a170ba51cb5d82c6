"""What klops says in its own log."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from structlog.testing import capture_logs

from klops.log import get_logger


@contextmanager
def logged() -> Iterator[list[MutableMapping[str, Any]]]:
    """The entries made meanwhile, as structlog has them."""
    # a configuration that waits for the first logger would end the capture: have it done before
    get_logger(__name__)
    with capture_logs() as entries:
        yield entries
