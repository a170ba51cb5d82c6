"""``klops.stack``: the packages of the container have the versions that the settings pin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from klops.actions.base import Action, Context, Params, Plan, Probe, Seen, View
from klops.actions.own import hostreads, unasked
from klops.actions.own.stack.drift import drift, version
from klops.actions.own.stack.installing import InstallPackages
from klops.actions.own.telling import carried_out
from klops.errors import TaskFailed, UsageError
from klops.secret import Secret


class StackParams(Params):
    """Takes nothing but its ``state``: which versions, the settings say."""

    state: Literal["present"] = "present"


class StackAction(Action[StackParams]):
    """Installs what differs, all of it or nothing; what stood before is kept for going back."""

    name: ClassVar[str] = "klops.stack"
    params = StackParams

    def probe(self, params: StackParams, view: View) -> Probe:
        """What is installed; nothing where nothing is pinned."""
        if not view.settings.stack.packages:
            return Probe()
        return Probe(reads=(*hostreads.host(view.settings), hostreads.packages(view.settings)))

    def plan(self, params: StackParams, view: View, seen: Seen) -> Plan:
        """One step where a version differs, by what the packages' metadata says."""
        settings = view.settings
        if not settings.stack.packages:
            return Plan(skipped="klops.stack.packages is empty: no version is pinned")
        said = unasked.answer(view, seen.replies, hostreads.PACKAGES, "installed", "what is installed")
        if isinstance(said, Plan):
            return said
        installed: Mapping[str, Any] = said["installed"]
        differs = drift(settings, installed)
        result = {"packages": {name: version(installed.get(name)) for name in settings.stack.packages}}
        editable = [name for name in settings.stack.packages if (installed.get(name) or {}).get("editable")]
        warnings = tuple(
            f"{name} is an editable installation: its version says nothing of its files" for name in editable
        )
        if not differs and not said.get("interrupted"):
            text = f"{len(settings.stack.packages)} packages as pinned"
            return Plan(result=result, message=text, warnings=warnings)
        if not said.get("uv"):
            failure = TaskFailed(
                "there is no uv in the container to install packages with",
                code="uv-missing",
                hint=f"{settings.container.python} -m pip install uv, in the container or its image",
            )
            return Plan(failure=failure, warnings=warnings)
        index = settings.stack.index_url
        try:
            if isinstance(index, Secret):
                index.reveal()
        except UsageError as error:
            text = f"klops.stack.index_url: {error.message}"
            return Plan(failure=TaskFailed(text, code="secret-missing", hint=error.hint), warnings=warnings)
        step = InstallPackages(settings, differs, interrupted=bool(said.get("interrupted")))
        return Plan(steps=(step,), result=result, warnings=warnings)

    def apply(self, plan: Plan, ctx: Context) -> dict[str, Any]:
        """Carry the step out; noted is what has really changed, also what nobody asked for."""
        (added,), changed = carried_out(plan, ctx)
        return {**added, "changed": changed}
