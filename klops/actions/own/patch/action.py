"""``klops.patch``: files of site-packages are patched as the settings, or a task, say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from klops.actions.base import Action, Context, Params, Plan, Probe, Seen, Step, View
from klops.actions.own import hostreads, unasked
from klops.actions.own.generation import look
from klops.actions.own.patch.steps import ApplyPatch, RevertPatch
from klops.actions.own.patch.wanted import Kept, Wanted, reverting, standing
from klops.actions.own.stack.drift import drift
from klops.actions.own.telling import carried_out
from klops.errors import TaskFailed
from klops.inventory.settings import Settings


class PatchParams(Params):
    """``file``, with ``copy`` or ``diff``, and ``test``: one patch; without them all of the settings.

    ``state``: whether they are to be applied, or taken back.
    """

    state: Literal["present", "reverted"] = "present"
    file: str | None = None
    copy_from: str | None = Field(default=None, validation_alias="copy")
    diff: str | None = None
    test: str | None = None

    @model_validator(mode="after")
    def _one_patch(self) -> PatchParams:
        given = [name for name in (self.copy_from, self.diff) if name is not None]
        if self.file is None and (given or self.test is not None):
            raise ValueError("copy, diff and test belong to a file: write file, too")
        if self.file is not None and len(given) != (1 if self.state == "present" else 0):
            wants = "write copy, or diff" if self.state == "present" else "copy and diff mean nothing here"
            raise ValueError(f"a file that is to be {self.state}: {wants}")
        return self


class PatchAction(Action[PatchParams]):
    """Patches each file from its pristine form, once; refuses one that somebody has changed by hand."""

    name: ClassVar[str] = "klops.patch"
    params = PatchParams
    local_files: ClassVar[Mapping[str, str]] = {"copy": "files", "diff": "files"}

    def probe(self, params: PatchParams, view: View) -> Probe:
        """How the files stand, and the patches; where there are none, what klops has noted of earlier."""
        files = _files(params, view.settings)
        if not files:
            # read for what serves anyway
            return Probe(reads=(look.read(view.settings),))
        reads = (*hostreads.host(view.settings), hostreads.packages(view.settings, files))
        wanted = _wanted(params, view.settings)
        return Probe(reads=reads, files={one.file: ("files", one.path) for one in wanted})

    def plan(self, params: PatchParams, view: View, seen: Seen) -> Plan:
        """A step for each file that doesn't stand as it should."""
        settings = view.settings
        files = _files(params, settings)
        if not files:
            noted = look.look(seen.replies)
            warnings = _forgotten(noted.now["patches"] if noted is not None else (), files)
            return Plan(skipped="klops.stack.patches is empty: no file is patched", warnings=warnings)
        said = unasked.answer(view, seen.replies, hostreads.PACKAGES, "patches", "how the files stand")
        if isinstance(said, Plan):
            return said
        there = {str(one["file"]): one for one in said["patches"]}
        kept = Kept(f"{settings.root}/pristine", str(said.get("site") or ""), view.host)
        # a patch that went with the version that it was of is no longer there
        known = {file: one["known"] for file, one in there.items() if one.get("known") is not None}
        noted_files = [file for file, note in known.items() if not note.get("stale")]
        warnings = () if params.file is not None else _forgotten(noted_files, map(kept.within, files))
        try:
            steps = _steps(params, settings, there, seen.files, kept)
        except TaskFailed as failure:
            if view.check and drift(settings, said["installed"]):
                # in a dry run klops.stack has only said which files it would bring
                return Plan(unknown=f"klops.stack would change packages first: {failure.message}")
            return Plan(failure=failure, warnings=warnings)
        done = "patched" if params.state == "present" else "as their distributions gave them"
        text = "" if steps else f"{len(files)} files are {done}"
        return Plan(steps=steps, result={"files": files}, message=text, warnings=warnings)

    def apply(self, plan: Plan, ctx: Context) -> dict[str, Any]:
        """Carry the steps out; noted are the files that have really become others."""
        added, changed = carried_out(plan, ctx)
        return {"patches": added, "changed": changed}


def _steps(
    params: PatchParams,
    settings: Settings,
    there: Mapping[str, Any],
    patches: Mapping[str, bytes],
    kept: Kept,
) -> tuple[Step, ...]:
    """What is to be done to which file. Raises TaskFailed for one that isn't fit for it."""
    if params.state == "reverted":
        files = _files(params, settings)
        return tuple(RevertPatch(settings, file) for file in files if reverting(file, there[file], kept))
    found = []
    for wanted in _wanted(params, settings):
        data = patches[wanted.file]
        why = standing(wanted, data, there[wanted.file], kept)
        if why:
            found.append(ApplyPatch(settings, wanted, data, why, kept.within(wanted.file)))
    return tuple(found)


def _files(params: PatchParams, settings: Settings) -> list[str]:
    return [one.file for one in settings.stack.patches] if params.file is None else [params.file]


def _wanted(params: PatchParams, settings: Settings) -> list[Wanted]:
    """The patches that are to be applied."""
    if params.state == "reverted":
        return []
    if params.file is not None:
        return [_one(params.file, params.copy_from, params.diff, params.test)]
    return [_one(one.file, one.copy_from, one.diff, one.test) for one in settings.stack.patches]


def _one(file: str, copy: str | None, diff: str | None, test: str | None) -> Wanted:
    if diff is not None:
        return Wanted(file, "diff", diff, test)
    return Wanted(file, "copy", str(copy), test)


def _forgotten(noted: Iterable[str], files: Iterable[str]) -> tuple[str, ...]:
    """Files that klops has noted as patched, and that no setting names any more."""
    return tuple(
        f"{file} was patched by klops, and is no longer named in klops.stack.patches: it stays as it is "
        f"until a task klops.patch with file: {file} and state: reverted"
        for file in sorted({*noted}.difference(files))
    )
