"""``klops.source``: the tree that a ref of a local repository stands for is the release that runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from klops.actions.base import Action, Context, Params, Plan, Probe, Seen, Step, View
from klops.actions.own import hostreads, hostview, unasked
from klops.actions.own.source import listing, looking
from klops.actions.own.source.looking import TREE, Standing
from klops.actions.own.source.recipe import image_of, wanted_name
from klops.actions.own.source.sending import SendTree
from klops.actions.own.source.steps import ActivateRelease, BuildRelease
from klops.actions.own.telling import carried_out

if TYPE_CHECKING:
    from klops.source.tree import Report, Tree


class SourceParams(Params):
    """``ref`` and ``dirty``: instead of those of the settings.

    ``noted``: a ``klops.generation`` is to come after it. Where no service is to run on the release it serves
    as soon as it is the current one, and is noted in the same go.
    """

    state: Literal["present"] = "present"
    ref: str | None = None
    dirty: bool | None = None
    noted: bool = False


class SourceAction(Action[SourceParams]):
    """Sends what the host lacks, builds it if need be, and switches to it."""

    name: ClassVar[str] = "klops.source"
    params = SourceParams

    def probe(self, params: SourceParams, view: View) -> Probe:
        """The tree, and the releases of the host; nothing where no repository is set."""
        settings = view.settings
        look = looking.tree_look(settings, params.ref, params.dirty)
        if look is None:
            return Probe()
        listed = hostreads.releases(settings, entries=view.check or view.diff)
        reads = (*hostreads.host(settings), listed)
        return Probe(reads=reads, local={TREE: look})

    def plan(self, params: SourceParams, view: View, seen: Seen) -> Plan:
        """Nothing where the release runs undamaged, where it is to be found; else what leads to it."""
        settings = view.settings
        if settings.source.repo is None:
            return Plan(skipped="klops.source.repo is not set: no source tree is synced")
        host = hostview.look(seen.replies, settings)
        nobody = unasked.unasked(view, host, "the release would be put in place")
        if nobody is not None:
            return nobody
        tree = cast("Tree", seen.local[TREE])
        reply = hostview.reply(seen.replies, hostreads.RELEASES)
        now = looking.standing(reply)
        if now is None:
            return unasked.refused(view, reply, "the releases of the host can't be told")
        name = wanted_name(settings, tree.release.name, image_of(host))
        why = now.lacks(name)
        return Plan(
            steps=_steps(view, tree, now, name, why, noted=params.noted and not settings.services),
            result=_result(tree, name, now.current),
            message=f"{name} is current ({len(tree.release.entries)} files)" if not why else "",
            warnings=(*_warnings(tree), *_damage(now, view.host)),
        )

    def apply(self, plan: Plan, ctx: Context) -> dict[str, Any]:
        """Carry the steps out; noted is what each has really changed."""
        added, changed = carried_out(plan, ctx)
        return {**{key: value for one in added for key, value in one.items()}, "changed": changed}


def _steps(view: View, tree: Tree, now: Standing, name: str, why: str, *, noted: bool) -> tuple[Step, ...]:
    """What is there already may be damaged, which only the host can tell: it is offered all the same.

    In a dry run that would tell of changes that there aren't.
    """
    if not why:
        return ()
    settings = view.settings
    source = tree.release.name
    # another container has nothing of what a build installed; where it has, building changes nothing
    installs = bool(name != source and settings.source.build.installs and now.elsewhere)
    if now.current == name and not now.damage and not installs:
        return (ActivateRelease(settings, name, now.current, why),)
    there = () if now.entries is None and (view.check or view.diff) else now.entries
    send = SendTree(settings, tree, there)
    listed = view.check and now.sound(source)
    activate = ActivateRelease(settings, name, now.current, why, send.files(there or ()) if listed else None)
    if name != source:
        build = installs or not (view.check and now.built(name))
        built = (BuildRelease(settings, source, name),) if build else ()
        return (*(() if listed else (send,)), *built, activate)
    return (activate,) if listed else (replace(send, then=activate, noted=noted),)


def _result(tree: Tree, name: str, current: str | None) -> dict[str, Any]:
    return {
        "release": name,
        "current": current,
        "commit": tree.release.about.get("commit"),
        "digest": tree.release.digest,
        "files": len(tree.release.entries),
        "sent_files": 0,
        "sent_bytes": 0,
        "normalised": len(tree.report.normalised),
    }


def _warnings(tree: Tree) -> tuple[str, ...]:
    """What a user may not expect of what is shipped."""
    report: Report = tree.report
    found = []
    if tree.release.about.get("dirty"):
        told = f"{report.modified} changed, {report.untracked} untracked"
        found.append(f"what isn't committed is shipped: {told}")
    if report.ignored:
        found.append(f"export-ignore keeps {len(report.ignored)} away: {_first(report.ignored)}")
    if report.substituted:
        found.append(f"export-subst fills in {len(report.substituted)}: {_first(report.substituted)}")
    if report.endings_only:
        found.append(
            f"{report.endings_only} differ from the commit in their line endings only: the commit is shipped"
        )
    return tuple(found)


def _damage(now: Standing, host: str) -> tuple[str, ...]:
    """Somebody has worked in the container's copy; it may be running, and is to stay, they think."""
    if not now.damage:
        return ()
    shown = _first(now.damage)
    text = f"somebody has changed {now.current} on the host, beside klops: {shown}"
    return (f"{text}; what was started since then runs that until klops restart {host}",)


def _first(paths: tuple[str, ...]) -> str:
    shown = ", ".join(listing.shown(path) for path in paths[:3])
    return shown + (", ..." if len(paths) > 3 else "")
