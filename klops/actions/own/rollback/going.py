"""Which steps lead from what stands to an earlier generation. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from klops.actions.own.rollback.steps import ActivateRelease, PutBack, RestorePackages, TakeTargetsAway
from klops.actions.own.services.others import CheckOthers
from klops.actions.own.services.steps import Verb
from klops.actions.own.services.stop import stop_timeout
from klops.actions.own.services.wait import WaitReady
from klops.commands.agent import packages_digest
from klops.errors import TaskFailed

if TYPE_CHECKING:
    from klops.actions.base import Step, View
    from klops.actions.own.generation.look import Generation, Generations
    from klops.actions.own.hostview import HostView

#: How a target is noted whose package has a link in its place.
_LINKED = "site-packages"
#: States in which nothing of a unit lives.
_AT_REST = ("stopped", "failed", "backoff", None)


def gone(found: Generations, goal: Generation) -> TaskFailed | None:
    """The error for a generation whose release isn't on the host any more; None when it is."""
    if goal["there"]:
        return None
    there = ", ".join(str(one["number"]) for one in found.known if one["there"] and one["health"] == "good")
    return TaskFailed(
        f"release {goal['release']} of generation {goal['number']} is not on this host any more",
        code="release-gone",
        hint=f"whole are those of generation {there or '(none)'}; klops.source.keep says how many are kept; "
        "klops sync --ref puts any commit there",
    )


def steps(view: View, host: HostView, found: Generations, goal: Generation) -> tuple[Step, ...]:
    """Packages, release, units, and a wait for each; none when all is as it was."""
    settings, now = view.settings, found.now
    code: list[Step] = []
    restored = tuple(_packages(found, goal))
    away = _taken_away(view, now, goal, restored=bool(restored))
    if away is not None:
        code.append(away)
    if restored:
        code.append(RestorePackages(settings, restored, goal["stack"], goal["patches"], view.run, away))
    code += _release(view, now, goal)
    moved = {
        name
        for name, unit in goal["units"].items()
        if _moves(host, unit, name, goal, restored=bool(restored))
    }
    strangers = [name for name in host.units if name not in goal["units"] and _wanted(host, name)]
    leave: list[Step] = []
    for name in strangers:
        why = f"it is no part of generation {goal['number']}"
        leave.append(Verb(settings, "stop", name, why, stop_timeout(settings, name)))
    busy = [name for name in sorted(moved) if _runs(host, name)]
    stops: list[Step] = []
    if len(moved) > 1:
        # a card or port that one gives up another may take
        why = "before it is started as it was"
        stops = [
            Verb(settings, "stop", name, why, goal["units"][name]["stop_timeout"], resumes=True)
            for name in busy
        ]
    starts = [
        PutBack(settings, name, goal["number"], goal["units"][name], "" if stops else _runs(host, name))
        for name in sorted(moved)
    ]
    cards = frozenset(card for start in starts for card in start.known["cards"])
    checks: list[Step] = [CheckOthers(settings, cards, frozenset(moved))] if cards else []
    waits: list[Step] = [
        WaitReady(settings, view.host, name, unit["start_timeout"])
        for name, unit in goal["units"].items()
        if name in moved or host.units.get(name, {}).get("state") != "ready"
    ]
    return (*code, *leave, *stops, *checks, *starts, *waits)


def _packages(found: Generations, goal: Generation) -> Iterator[str]:
    """Each distribution and file that is another one now, in words."""
    now, original = found.now, found.original
    for name in sorted({*now["stack"], *goal["stack"]}):
        have = now["stack"].get(name, original.get(name))
        want = goal["stack"].get(name, original.get(name))
        if have != want:
            yield f"{name} {_version(have)} -> {_version(want)}"
    for file in sorted({*now["patches"], *goal["patches"]}):
        have, want = (one["patches"].get(file, {}).get("patched") for one in (now, goal))
        if have != want:
            yield f"{file} ({'patched otherwise' if have and want else 'patched' if want else 'not patched'})"


def _version(one: Mapping[str, Any] | None) -> str:
    return "not installed" if one is None else str(one.get("version"))


def _taken_away(view: View, now: Generation, goal: Generation, *, restored: bool) -> TakeTargetsAway | None:
    """Targets that go before anything else: all, where the goal has no release; and links in the place of
    packages that the goal hasn't, as what is ``restored`` would else be written through them."""
    if goal["release"] is None:
        gone = now["targets"]
    else:
        links = [one for one in now["targets"] if restored and one.get("place") == _LINKED]
        gone = [one for one in links if one not in goal["targets"]]
    if not gone:
        return None  # nobody imports from a release that is current without targets
    left = tuple(one for one in now["targets"] if one not in gone)
    return TakeTargetsAway(view.settings, now["release"], tuple(gone), left, goal["release"])


def _release(view: View, now: Generation, goal: Generation) -> list[Step]:
    if goal["release"] is None or (goal["release"], goal["targets"]) == (now["release"], now["targets"]):
        return []
    paths = tuple(dict.fromkeys(path for unit in goal["units"].values() for path in unit["paths"] or ()))
    return [ActivateRelease(view.settings, goal["release"], goal["targets"], paths, now["release"])]


def _moves(host: HostView, unit: Mapping[str, Any], name: str, goal: Generation, *, restored: bool) -> bool:
    """Whether a unit has to be started anew."""
    known = host.units.get(name)
    if known is None or known.get("desired") != "running" or known.get("state") in _AT_REST:
        return True
    other = unit["paths"] is not None and known.get("release") != goal["release"]
    if restored and "packages" in known:
        # one that goes on since before they were changed has those that are put back
        patched = {file: one["patched"] for file, one in goal["patches"].items()}
        restored = known["packages"] != packages_digest(goal["stack"], patched)
    return restored or other or known.get("digest") != unit["digest"]


def _wanted(host: HostView, name: str) -> bool:
    unit = host.units[name]
    return unit.get("desired") != "stopped" or unit.get("state") != "stopped"


def _runs(host: HostView, name: str) -> str:
    """State of a unit that a start ends; "" when nothing of it lives."""
    state = host.units.get(name, {}).get("state")
    return "" if state in _AT_REST else str(state)
