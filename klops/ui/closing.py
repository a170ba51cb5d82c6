"""The last lines of a run: what failed and what to do next, and what is left for another run. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from klops.errors import KlopsError
from klops.playbook.results import RunResult
from klops.ui.faults import next_command

#: Characters of a failure that was told in full before.
_SHORT = 160


@dataclass(frozen=True)
class Line:
    """``whole``: it has a command to copy, and is never broken."""

    text: str
    style: str = ""
    whole: bool = False


def closing_lines(
    result: RunResult, errors: Mapping[str, KlopsError], told: Callable[[str, KlopsError], str | None]
) -> Iterator[Line]:
    """All of them. ``told``: where an error arose that was shown in full before, or None."""
    for host, error in errors.items():
        place = told(host, error)
        if place is not None:
            yield Line(_in_short(host, error, place), "red", whole=True)
        else:
            yield from _in_full(host, error)
    for host, names in result.handlers_left.items():
        handlers = f"handler {names[0]} runs" if len(names) == 1 else f"handlers {', '.join(names)} run"
        yield Line(f"{host}: {handlers} at the next run of this play", "yellow")
    # hosts of one play alone need no name of it
    several = len({play.name for play in result.plays} | {play for play, _ in result.not_run}) > 1
    for play, hosts in result.not_run:
        yield Line(f"not run{f' in play {play}' if several else ''}: {', '.join(hosts)}", "yellow")


def _message(host: str, error: KlopsError) -> list[str]:
    first, *more = (error.message or error.code).splitlines()
    return [first.removeprefix(f"{host}: "), *more]


def _in_short(host: str, error: KlopsError, place: str) -> str:
    text = _message(host, error)[0]
    if len(text) > _SHORT:
        text = text[:_SHORT] + "..."
    command = next_command(error, place)
    if command:
        return f"{host}: {text}; next: {command}"
    hint = error.hint.partition("\n")[0]
    return f"{host}: {text}; fix: {hint}" if hint else f"{host}: {text}"


def _in_full(host: str, error: KlopsError) -> Iterator[Line]:
    first, *more = _message(host, error)
    yield Line(f"{host}: {first}", "red")
    for text in more:
        yield Line(f"  {text}", "red")
    command = next_command(error, host)
    if command:
        yield Line(f"  next: {command}", whole=True)
    elif error.hint:
        yield Line(f"  fix: {error.hint}", whole=True)
