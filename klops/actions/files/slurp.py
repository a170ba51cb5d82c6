"""``slurp``: the content of a file on the host, as base64.

.. code-block:: yaml

    - slurp: {src: /etc/hostname}
      register: name
    - debug: {msg: "{{ name.content | b64decode }}"}
"""

from __future__ import annotations

import base64

from pydantic import AliasChoices, Field

from klops.actions.base import Action, Params, Plan, Probe, Seen, View
from klops.errors import TaskFailed
from klops.remote.base import Reply
from klops.remote.filereads import FOLDER, ContentRead
from klops.remote.reads import ABSENT

#: Bytes of a file that become a variable.
SLURP_LIMIT = 4 * 1024 * 1024


class SlurpParams(Params):
    """The file."""

    src: str = Field(min_length=1, validation_alias=AliasChoices("src", "path"))


class Slurp(Action[SlurpParams]):
    """Read a file; changes nothing."""

    name = "slurp"
    params = SlurpParams

    def probe(self, params: SlurpParams, view: View) -> Probe:
        """The file's content."""
        return Probe((ContentRead("content", params.src, SLURP_LIMIT),))

    def plan(self, params: SlurpParams, view: View, seen: Seen) -> Plan:
        """No steps."""
        reply = seen.replies["content"]
        if not reply.ok:
            raise unreadable(params.src, reply)
        path, _, content = reply.stdout.partition(b"\0")
        if len(content) > SLURP_LIMIT:
            most = SLURP_LIMIT // 1024**2
            raise TaskFailed(
                f"{params.src} has more than {most} MiB", hint="fetch takes larger ones", code="output-limit"
            )
        source = path.decode("utf-8", "surrogateescape")
        encoded = base64.b64encode(content).decode()
        return Plan(result={"content": encoded, "source": source, "encoding": "base64"})


def unreadable(path: str, reply: Reply) -> TaskFailed:
    """Why a read of :mod:`klops.remote.filereads` gave no content."""
    if reply.rc == ABSENT:
        return TaskFailed(f"{path} does not exist", code="absent")
    if reply.rc == FOLDER:
        return TaskFailed(f"{path} is a folder", hint="name one file", code="folder")
    return TaskFailed(
        f"{path} can't be read: {reply.error_text.strip() or 'no regular file, or not allowed'}",
        hint="become: true reads what only root may",
        code="unreadable",
    )
