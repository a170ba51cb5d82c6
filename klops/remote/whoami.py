"""Who runs klops on this machine."""

from __future__ import annotations

import getpass
import os


def login_name() -> str:
    """The name of this user; "" for a uid that this machine has no name for, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        # KeyError until Python 3.12, OSError after; ImportError where there is no pwd
        return ""


def user() -> str:
    """The name of this user, or ``uid N``. For messages and records, not for logging in."""
    return login_name() or f"uid {os.getuid() if hasattr(os, 'getuid') else '?'}"
