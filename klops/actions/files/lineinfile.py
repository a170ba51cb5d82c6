"""``lineinfile``: one line of a text file, there or not.

.. code-block:: yaml

    - lineinfile: {path: /etc/sysctl.conf, regexp: ^vm.swappiness=, line: vm.swappiness=10}
    - lineinfile: {path: /etc/fstab, regexp: '\\sswap\\s', state: absent, backup: true}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import AliasChoices, Field, field_validator, model_validator

from klops.actions.base import Action, Context, Plan, Probe, Seen, View
from klops.actions.files.editing import (
    EditParams,
    before,
    edit_plan,
    edit_reads,
    edit_result,
    needs_create,
    pattern,
)
from klops.actions.files.ownership import REFUSED
from klops.commands.linefile import (
    BackreferenceError,
    LineEdit,
    Place,
    encoded,
    with_line,
    without_lines,
)
from klops.errors import TaskFailed


class LineInFileParams(EditParams):
    """``regexp`` or ``search_string`` tell which line is replaced (or removed), ``line`` what it becomes."""

    line: str | None = Field(default=None, validation_alias=AliasChoices("line", "value"))
    regexp: str | None = Field(default=None, validation_alias=AliasChoices("regexp", "regex"))
    search_string: str | None = None
    state: Literal["present", "absent"] = "present"
    backrefs: bool = False
    firstmatch: bool = False

    @field_validator("regexp")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        return pattern(value)

    @model_validator(mode="after")
    def _fit_together(self) -> LineInFileParams:
        for one, other in (("insertbefore", "insertafter"), ("regexp", "search_string")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ValueError(f"give one of {one} and {other}")
        if self.backrefs and self.search_string is not None:
            raise ValueError("backrefs needs a regexp, not a search_string")
        if self.state == "present":
            if self.line is None:
                raise ValueError("state: present needs line")
            if self.backrefs and self.regexp is None:
                raise ValueError("backrefs needs regexp")
        elif self.line is None and self.regexp is None and self.search_string is None:
            raise ValueError("state: absent needs one of line, search_string and regexp")
        return self

    @property
    def edit(self) -> LineEdit:
        """The parameters as an edit of bytes."""
        return LineEdit(
            line=encoded(self.line or ""),
            pattern=None if self.regexp is None else re.compile(encoded(self.regexp)),
            text=None if self.search_string is None else encoded(self.search_string),
            place=Place(self.insertafter, self.insertbefore),
            backrefs=self.backrefs,
            first=self.firstmatch,
        )


class LineInFile(Action[LineInFileParams]):
    """One line of a file."""

    name = "lineinfile"
    params = LineInFileParams
    refused: ClassVar[Mapping[str, str]] = REFUSED

    def probe(self, params: LineInFileParams, view: View) -> Probe:
        """The file, whole."""
        return Probe(edit_reads(params))

    def plan(self, params: LineInFileParams, view: View, seen: Seen) -> Plan:
        """Write the file if the edit changes it."""
        had = before(params, seen)
        more: dict[str, Any] = {"backup": ""}
        if params.state == "absent":
            if had is None:
                return Plan(message="file not present", result={"msg": "file not present"})
            new, count = without_lines(had, params.edit)
            message = f"{count} line(s) removed" if count else ""
            return edit_plan(params, had, new, message, seen, view, {**more, "found": count})
        if had is None and not params.create:
            raise needs_create(f"Destination {params.path}")
        try:
            new, message = with_line(had or b"", params.edit)
        except BackreferenceError as error:
            hint = "backrefs: true takes \\1 of line from a group of regexp; a backslash itself is \\\\"
            raise TaskFailed(
                f"line {params.line!r} does not go with regexp: {error}", hint=hint, code="parameters"
            ) from error
        if had is None and not message:
            # backrefs without a match: there is nothing to make a file of
            return Plan(result={"msg": "", **more})
        return edit_plan(params, had, new, message, seen, view, more)

    def apply(self, plan: Plan, ctx: Context) -> dict[str, Any]:
        """As planned."""
        return edit_result(super().apply(plan, ctx), "backup")
