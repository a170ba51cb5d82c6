"""``template``: a Jinja2 template of the control node, rendered for the host.

.. code-block:: yaml

    - template: {src: motd.j2, dest: /etc/motd, mode: "0644"}
    - template: {src: sudoers.j2, dest: /etc/sudoers.d/vllm, mode: "0440", validate: visudo -cf %s}
"""

from __future__ import annotations

import platform
import posixpath
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import field_validator

from klops.actions.base import Action, Context, Plan, Probe, Seen, View
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

#: parameters that change how Jinja2 reads a template
_DIALECT = (
    "newline_sequence",
    "trim_blocks",
    "lstrip_blocks",
    "block_start_string",
    "block_end_string",
    "variable_start_string",
    "variable_end_string",
    "comment_start_string",
    "comment_end_string",
)
_NEWLINES = {"\\n": "\n", "\\r": "\r", "\\r\\n": "\r\n"}


class TemplateParams(DestinationParams):
    """``src`` is looked for in ``templates`` beside the playbook."""

    src: str
    newline_sequence: Literal["\n", "\r", "\r\n"] | None = None
    trim_blocks: bool | None = None
    lstrip_blocks: bool | None = None
    block_start_string: str | None = None
    block_end_string: str | None = None
    variable_start_string: str | None = None
    variable_end_string: str | None = None
    comment_start_string: str | None = None
    comment_end_string: str | None = None
    output_encoding: Literal["utf-8", "UTF-8", "utf8"] = "utf-8"

    @field_validator("newline_sequence", mode="before")
    @classmethod
    def _unescaped(cls, value: Any) -> Any:
        # as Ansible: '\n' in single quotes is the two characters that name a newline
        return _NEWLINES.get(value, value) if isinstance(value, str) else value

    @property
    def dialect(self) -> dict[str, Any]:
        """What is given of Jinja2's own parameters."""
        given = {name: getattr(self, name) for name in _DIALECT}
        return {name: value for name, value in given.items() if value is not None}


class Template(Action[TemplateParams]):
    """One file with the rendered content."""

    name = "template"
    params = TemplateParams
    local_files: ClassVar[Mapping[str, str]] = {"src": "templates"}
    refused: ClassVar[Mapping[str, str]] = REFUSED

    def probe(self, params: TemplateParams, view: View) -> Probe:
        """The file on the host, and the template."""
        return Probe(content_reads(params, _name(params)), {"src": (self.local_files["src"], params.src)})

    def plan(self, params: TemplateParams, view: View, seen: Seen) -> Plan:
        """Write what differs."""
        try:
            text = seen.files["src"].decode("utf-8")
        except UnicodeDecodeError as error:
            raise TaskFailed(
                f"{params.src} is not UTF-8 text", hint="copy takes any file as it is"
            ) from error
        local = view.find_local(self.local_files["src"], params.src) if params.mode == "preserve" else None
        rendered = view.render(text, name=params.src, more=self._own(params, view), **params.dialect)
        source = Source(rendered.encode(), _name(params), wanted_mode(params, local))
        return content_plan(params, source, seen, view)

    def _own(self, params: TemplateParams, view: View) -> dict[str, str]:
        """Variables that a template has besides the host's, with Ansible's names for them."""
        managed = {} if "ansible_managed" in view.variables else {"ansible_managed": "Ansible managed"}
        return {
            **managed,
            "template_path": params.src,
            "template_fullpath": str(view.find_local(self.local_files["src"], params.src)),
            "template_destpath": params.dest,
            "template_host": platform.node(),
        }

    def apply(self, plan: Plan, ctx: Context) -> dict[str, Any]:
        """As planned; then what the file has become."""
        return finished(ctx, plan, super().apply(plan, ctx))


def _name(params: TemplateParams) -> str:
    """The file's own name. As in Ansible an ending ``.j2`` stays, unless dest names the file."""
    return posixpath.basename(params.src)
