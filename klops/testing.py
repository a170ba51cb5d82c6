"""What tests of playbooks and actions need: a fake host with scripted replies."""

from __future__ import annotations

from collections.abc import Mapping

from klops.actions.base import Probe, Seen
from klops.remote.base import Completed, Remote, Reply
from klops.remote.fake import Call, FakeRemote, UnexpectedCallError, reply

__all__ = ["Call", "Completed", "FakeRemote", "Reply", "UnexpectedCallError", "reply", "seen"]


def seen(probe: Probe, remote: Remote, files: Mapping[str, bytes] | None = None) -> Seen:
    """What a plan gets to see: the reads of its probe on ``remote``, its looks at this machine.

    ``files``: contents of files of the control node, by the path the probe asks for.
    """
    return Seen(
        remote.read(probe.reads),
        {key: (files or {})[path] for key, (_, path) in probe.files.items()},
        {key: look.look() for key, look in probe.local.items()},
    )
