"""Whether a stream wants colours and a live display."""

from __future__ import annotations

import os
from typing import Any


def is_terminal(stream: Any) -> bool:
    """Whether ``stream`` is a terminal that can move its cursor (``TERM=dumb`` can't)."""
    try:
        return bool(stream.isatty()) and os.environ.get("TERM", "") != "dumb"
    except (AttributeError, ValueError):
        # a stream that was replaced or closed
        return False


def wants_colour(stream: Any) -> bool:
    """A terminal, and no ``NO_COLOR`` in the environment (https://no-color.org: set and not empty)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")
