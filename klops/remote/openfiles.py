"""File descriptors of the control node: a fleet takes several for each host that is worked on.

Many systems let a process have 256 or 1024 of them, and more when it asks.
"""

from __future__ import annotations

import contextlib
import errno
import functools
from collections.abc import Iterator

from klops.errors import KlopsError

#: what is asked for; macOS grants no more than 10240
_WANTED = 10240


@functools.cache
def ask_for_more() -> None:
    """Have the limit raised as far as this user may, once a process. Windows has none of that kind."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(hard, _WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # a system may allow less than it says: then the old limit it is
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def ran_out(error: BaseException) -> bool:
    """Whether that is what went wrong, for this process or for the whole machine."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


@contextlib.contextmanager
def told_as_such(name: str) -> Iterator[None]:
    """Turns it into an error that names the fix; it says nothing of the host ``name``."""
    try:
        yield
    except OSError as error:
        if not ran_out(error):
            raise
        raise KlopsError(
            f"{name}: this machine lets klops open no more files and connections ({error.strerror})",
            hint="raise the limit (ulimit -n 4096), or work on fewer hosts at once: --forks",
            code="open-files",
        ) from error
