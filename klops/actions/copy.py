"""``copy``: a file of the control node, or a text, as a file on the host.

.. code-block:: yaml

    - copy: {src: limits.conf, dest: /etc/security/limits.d/vllm.conf, mode: "0644"}
    - copy: {content: "{{ servers | to_json }}", dest: /etc/servers.json}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import model_validator

from klops.actions.base import Action, Plan, Probe, Seen, View
from klops.actions.content import DestinationParams, content_plan, content_reads, destination


class CopyParams(DestinationParams):
    """``src`` (looked for in ``files`` beside the playbook) or ``content`` (mappings, lists: as JSON)."""

    src: str | None = None
    content: str | dict[str, Any] | list[Any] | None = None

    @model_validator(mode="after")
    def _one_source(self) -> CopyParams:
        if (self.src is None) == (self.content is None):
            raise ValueError("give one of src and content")
        return self


class Copy(Action[CopyParams]):
    """One file with the content given."""

    name = "copy"
    params = CopyParams
    local_files: ClassVar[Mapping[str, str]] = {"src": "files"}

    def probe(self, params: CopyParams, view: View) -> Probe:
        """The file on the host, and the one of the control node."""
        files = {"src": (self.local_files["src"], params.src)} if params.src is not None else {}
        return Probe(content_reads(params, destination(params.dest, params.src)), files)

    def plan(self, params: CopyParams, view: View, seen: Seen) -> Plan:
        """Write what differs."""
        content = seen.files["src"] if params.src is not None else _bytes(params.content)
        return content_plan(params, destination(params.dest, params.src), content, seen)


def _bytes(content: Any) -> bytes:
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return text.encode()
