"""``template``: a Jinja2 template of the control node, rendered for the host.

.. code-block:: yaml

    - template: {src: motd.j2, dest: /etc/motd, mode: "0644"}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from klops.actions.base import Action, Plan, Probe, Seen, View
from klops.actions.content import DestinationParams, content_plan, content_reads, destination
from klops.errors import TaskFailed


class TemplateParams(DestinationParams):
    """``src`` is looked for in ``templates`` beside the playbook."""

    src: str


class Template(Action[TemplateParams]):
    """One file with the rendered content."""

    name = "template"
    params = TemplateParams
    local_files: ClassVar[Mapping[str, str]] = {"src": "templates"}

    def probe(self, params: TemplateParams, view: View) -> Probe:
        """The file on the host, and the template."""
        return Probe(content_reads(params, _path(params)), {"src": (self.local_files["src"], params.src)})

    def plan(self, params: TemplateParams, view: View, seen: Seen) -> Plan:
        """Write what differs."""
        try:
            source = seen.files["src"].decode("utf-8")
        except UnicodeDecodeError as error:
            raise TaskFailed(
                f"{params.src} is not UTF-8 text", hint="copy takes any file as it is"
            ) from error
        return content_plan(params, _path(params), view.render(source).encode(), seen)


def _path(params: TemplateParams) -> str:
    return destination(params.dest, params.src.removesuffix(".j2"))
