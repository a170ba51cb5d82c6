"""``blockinfile``: a block of lines between two markers in a text file.

.. code-block:: yaml

    - blockinfile:
        path: /etc/hosts
        marker: "# {mark} klops hosts"
        block: |
          10.0.0.1 node1
          10.0.0.2 node2
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import AliasChoices, Field, model_validator

from klops.actions.base import Action, Context, Plan, Probe, Seen, View
from klops.actions.files.editing import EditParams, before, edit_plan, edit_reads, edit_result, needs_create
from klops.actions.files.ownership import REFUSED
from klops.commands.linefile import BlockEdit, Place, encoded, with_block


class BlockInFileParams(EditParams):
    """``{mark}`` in ``marker`` stands for ``marker_begin`` and ``marker_end``; an empty block is no block."""

    block: str = Field(default="", validation_alias=AliasChoices("block", "content"))
    state: Literal["present", "absent"] = "present"
    marker: str = "# {mark} ANSIBLE MANAGED BLOCK"
    marker_begin: str = "BEGIN"
    marker_end: str = "END"
    append_newline: bool = False
    prepend_newline: bool = False

    @model_validator(mode="after")
    def _fit_together(self) -> BlockInFileParams:
        if self.insertafter is not None and self.insertbefore is not None:
            raise ValueError("give one of insertafter and insertbefore")
        begin, end = self.markers
        if begin == end:
            raise ValueError("both markers are the same line: put {mark} into marker")
        if "\n" in begin + end:
            raise ValueError("a marker is one line")
        return self

    @property
    def markers(self) -> tuple[str, str]:
        """The two marker lines."""
        begin, end = self.marker_begin, self.marker_end
        return self.marker.replace("{mark}", begin), self.marker.replace("{mark}", end)

    @property
    def edit(self) -> BlockEdit:
        """The parameters as an edit of bytes."""
        begin, end = self.markers
        return BlockEdit(
            encoded(self.block),
            encoded(begin),
            encoded(end),
            Place(self.insertafter, self.insertbefore),
            self.append_newline,
            self.prepend_newline,
            self.state == "present",
        )


class BlockInFile(Action[BlockInFileParams]):
    """One block of a file."""

    name = "blockinfile"
    params = BlockInFileParams
    refused: ClassVar[Mapping[str, str]] = REFUSED

    def probe(self, params: BlockInFileParams, view: View) -> Probe:
        """The file, whole."""
        return Probe(edit_reads(params))

    def plan(self, params: BlockInFileParams, view: View, seen: Seen) -> Plan:
        """Write the file if the edit changes it."""
        had = before(params, seen)
        if had is None and not params.create:
            raise needs_create(f"Path {params.path}")
        if had is None and params.state == "absent":
            text = f"File {params.path} not present"
            return Plan(message=text, result={"msg": text})
        new = with_block(had or b"", params.edit)
        if had is None:
            message = "File created"
        elif had == new:
            message = ""
        else:
            message = "Block inserted" if params.state == "present" and params.block else "Block removed"
        return edit_plan(params, had, new, message, seen, view, {})

    def apply(self, plan: Plan, ctx: Context) -> dict[str, Any]:
        """As planned."""
        return edit_result(super().apply(plan, ctx), "backup_file")
