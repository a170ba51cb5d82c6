"""Generations and releases of a host, as its agent lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from klops.cli.place import Place

if TYPE_CHECKING:
    from klops.inventory.settings import Settings
    from klops.remote.base import Remote


def read_releases(host: str, settings: Settings, remote: Remote) -> dict[str, Any]:
    """In one remote command: ``current`` release, ``generation`` that stands (a number, or None), all
    ``generations``, the newest first, ``releases``, and ``faults``: what is there and can't be read."""
    place = Place.of(host, settings)
    replies = remote.read([*place.looks, place.ask("generations"), place.ask("releases")])
    place.require_running(replies)
    generations = place.answer(replies["generations"], "generations")
    known: dict[str, Any] = replies["generations"].json()
    there: dict[str, Any] = {"releases": place.answer(replies["releases"], "releases")}
    there |= replies["releases"].json()
    broken = [f"the manifest of release {name} can't be read" for name in there.get("broken") or ()]
    return {
        "current": there.get("current"),
        "generation": known["now"]["number"],
        "generations": generations,
        "releases": there["releases"],
        "faults": [*known["faults"], *broken],
    }
