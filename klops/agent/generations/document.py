"""A generation as it is written down, which of them are the same, and which are kept. Pure.

Beside ``number``, ``time``, ``author``, ``run``, ``health``, ``error`` and ``of`` (the number of the
earlier one that was gone back to, else None) it has what stood: ``release``, ``commit``, ``ref``,
``targets`` (as ``activate`` takes them), and by name ``stack`` (of distributions ``{"version", "record"}``,
or None for one that is not installed), ``patches`` (of files ``{"pristine", "patched", "patch"}``) and
``units`` (``{"digest", "spec"}``).
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

GOOD = "good"
BAD = "bad"
#: What makes two generations the same.
_SAME = ("release", "targets", "stack", "patches")

Generation = Mapping[str, Any]


def digests(one: Generation) -> dict[str, Any]:
    """Digest of each unit's specification by name."""
    return {name: unit.get("digest") for name, unit in one["units"].items()}


def same(one: Generation, other: Generation) -> bool:
    """Whether both are of the same code and settings, whenever that was."""
    return all(one[key] == other[key] for key in _SAME) and digests(one) == digests(other)


def less(one: Generation, other: Generation) -> bool:
    """Whether ``one`` is ``other`` with fewer units, or none less."""
    return all(one[key] == other[key] for key in _SAME) and digests(one).items() <= digests(other).items()


def newest(known: Sequence[Generation], health: str | None = None) -> Generation | None:
    """The one with the highest number, of all or of those with this health."""
    fitting = [one for one in known if health in (None, one["health"])]
    return max(fitting, key=lambda one: int(one["number"]), default=None)


def present(known: Sequence[Generation], now: Generation) -> Generation | None:
    """The newest that is what stands now; None when nothing of the kind was noted."""
    return newest([one for one in known if same(one, now)])


def next_one(known: Sequence[Generation], now: Generation, told: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is to be written for what stands ``now``; None when the newest of this health says it already.

    ``told``: ``health``, ``author``, ``run``, ``error``, ``of`` and ``time``.
    """
    before = newest(known, str(told["health"]))
    if before is not None and same(before, now):
        return None
    number = 1 + max((int(one["number"]) for one in known), default=0)
    return {"number": number, **told, **now}


def obstacle(now: Generation, units: Mapping[str, Mapping[str, Any]], *, services: bool) -> str:
    """Why what stands ``now`` is nothing to go back to; "" where it serves.

    ``units``: all by name, as a status has them; ``services``: some are to run.
    """
    waiting = [name for name in now["units"] if units.get(name, {}).get("state") != "ready"]
    # that a run has stopped and never came to start again
    waiting += [name for name, one in units.items() if one.get("resumes")]
    if waiting:
        return f"not everything that is to run is ready: {', '.join(waiting)}"
    empty = not any(now[key] for key in ("release", "stack", "patches", "units"))
    return "nothing runs that could be gone back to" if empty or (services and not now["units"]) else ""


def superfluous(known: Sequence[Generation], keep: int) -> list[int]:
    """Numbers of those that may go: all but the ``keep`` newest and the newest good one."""
    numbers = sorted((int(one["number"]) for one in known), reverse=True)
    good = newest(known, GOOD)
    kept = {*numbers[: max(1, keep)], *([int(good["number"])] if good is not None else [])}
    return [number for number in numbers if number not in kept]


def shown(one: Generation) -> dict[str, Any]:
    """One without the specifications of its units: of each what is needed to start it and wait for it."""
    units = {name: _unit(unit) for name, unit in one["units"].items()}
    return {**{key: value for key, value in one.items() if key != "schema"}, "units": units}


def _unit(unit: Mapping[str, Any]) -> dict[str, Any]:
    spec = unit["spec"]
    return {
        "digest": unit["digest"],
        "cards": [card["index"] for card in spec["cards"]],
        "tp": spec["tp"],
        "port": spec["port"],
        "model": spec["model"],
        # folders of the release that it imports from; None for one that runs on none
        "paths": (spec.get("source") or {}).get("paths"),
        "start_timeout": spec["health"].get("start_timeout"),
        "stop_timeout": spec["stop"]["timeout"],
    }
