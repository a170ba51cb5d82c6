"""The scheduled pass on a host: what cron runs there, kept as the settings want it. Pure."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from klops.actions.base import Step
from klops.actions.own import hostreads
from klops.actions.own.hostview import reply
from klops.actions.steps import WriteFile
from klops.commands.hostpass import passscript
from klops.remote.base import Replies
from klops.remote.reads import DigestRead, Read

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

_KEY = "pass"
#: For anybody to read and run: it holds no secret, and does nothing that who runs it may not do.
_MODE = 0o755


def path(settings: Settings) -> str:
    """Where the script lies."""
    return f"{settings.root}/pass"


def read(settings: Settings) -> Read:
    """What is there now."""
    return DigestRead(_KEY, path(settings))


def steps(replies: Replies, settings: Settings) -> tuple[Step, ...]:
    """Write the script where it is missing or made for other settings."""
    prefix, wanted = hostreads.docker_prefix(settings), settings.container
    content = passscript.script(
        *(prefix, wanted.name, wanted.python, settings.root),
        device_dir=settings.cards.device_dir,
        young=settings.cleanup.grace,
    ).encode()
    if reply(replies, _KEY).text.strip() == hashlib.sha256(content).hexdigest():
        return ()
    return (WriteFile(path(settings), content, _MODE, report=False),)
