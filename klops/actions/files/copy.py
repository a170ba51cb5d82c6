"""``copy``: files of the control node, or a text, as files on the host.

.. code-block:: yaml

    - copy: {src: limits.conf, dest: /etc/security/limits.d/vllm.conf, mode: "0644"}
    - copy: {content: "{{ servers | to_json }}", dest: /etc/servers.json}
    - copy: {src: tools/, dest: /opt/tools, mode: preserve}
    - copy: {src: /etc/hosts, dest: /root/hosts, remote_src: true}
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, model_validator

from klops.actions.base import Action, Context, Plan, Probe, Seen, View
from klops.actions.fields import Mode
from klops.actions.files import copytree, hostcopy
from klops.actions.files.content import (
    DestinationParams,
    Source,
    content_plan,
    content_reads,
    finished,
    wanted_mode,
)
from klops.actions.files.ownership import REFUSED
from klops.errors import TaskFailed
from klops.remote.reads import PathRead


class CopyParams(DestinationParams):
    """``src`` (looked for in ``files`` beside the playbook) or ``content`` (mappings, lists: as JSON).

    A folder is copied with all that is in it, under its own name unless ``src`` ends with a slash.
    ``remote_src``: a file of the host. ``directory_mode`` is that of folders, ``mode`` that of files.
    """

    src: str | None = None
    content: str | dict[str, Any] | list[Any] | None = None
    remote_src: bool = False
    directory_mode: Mode = None
    local_follow: bool = True
    checksum: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one_source(self) -> CopyParams:
        if (self.src is None) == (self.content is None):
            raise ValueError("give one of src and content")
        if self.content is not None and self.dest.endswith("/"):
            raise ValueError("content needs the whole name of the file in dest")
        if self.remote_src and self.src is not None and not self.src.startswith("/"):
            raise ValueError(f"{self.src!r} is a path of the host (remote_src), and not an absolute one")
        return self

    @property
    def local(self) -> str | None:
        """The source's path, when it is on the control node."""
        return None if self.remote_src else self.src


class Copy(Action[CopyParams]):
    """Files with the content given."""

    name = "copy"
    params = CopyParams
    local_files: ClassVar[Mapping[str, str]] = {"src": "files"}
    refused: ClassVar[Mapping[str, str]] = {
        **REFUSED,
        "decrypt": "files are copied as they are: keep secrets in klops' secret sources, and use content",
    }

    def probe(self, params: CopyParams, view: View) -> Probe:
        """The file on the host, and the one of the control node."""
        if params.remote_src and params.src is not None:
            return Probe(hostcopy.wanted_reads(params, params.src))
        if params.local is None:
            return Probe(content_reads(params, ""))
        local = self._found(params.local, view)
        if local.is_dir():
            return Probe(
                copytree.wanted_reads(params, copytree.walk(local, params.local, params.local_follow))
            )
        files = {"src": (self.local_files["src"], params.local)}
        asked = content_reads(params, posixpath.basename(params.local))
        if params.dest.endswith("/"):
            asked = (*asked, PathRead("folder", (params.dest,)))
        return Probe(asked, files)

    def plan(self, params: CopyParams, view: View, seen: Seen) -> Plan:
        """Write what differs."""
        if params.remote_src and params.src is not None:
            return hostcopy.plan(params, params.src, seen)
        if params.local is None:
            return content_plan(
                params, Source(_bytes(params.content), "", wanted_mode(params, None)), seen, view
            )
        local = self._found(params.local, view)
        if local.is_dir():
            tree = copytree.walk(local, params.local, params.local_follow)
            return copytree.plan(params, tree, seen, view)
        data = seen.files["src"]
        if params.checksum and params.checksum != (
            have := hashlib.sha1(data, usedforsecurity=False).hexdigest()
        ):
            raise TaskFailed(
                f"{params.local}: its checksum is {have}, not {params.checksum}", code="checksum"
            )
        source = Source(data, posixpath.basename(params.local), wanted_mode(params, local))
        planned = content_plan(params, source, seen, view)
        if not params.dest.endswith("/") or seen.replies["folder"].ok:
            return planned
        return replace(
            planned, steps=(copytree.folder(params, params.dest.rstrip("/"), seen), *planned.steps)
        )

    def apply(self, plan: Plan, ctx: Context) -> dict[str, Any]:
        """As planned; then what the file has become."""
        return finished(ctx, plan, super().apply(plan, ctx))

    def _found(self, src: str, view: View) -> Path:
        return view.find_local(self.local_files["src"], src)


def _bytes(content: Any) -> bytes:
    text = content if isinstance(content, str) else json.dumps(content)
    return text.encode()
