"""Which generations are the same, and which are kept."""

from __future__ import annotations

from typing import Any

import pytest

from klops.agent.generations import document


def standing(release: str | None = "a", digest: str = "d", **changes: Any) -> dict[str, Any]:
    """What stands."""
    units = {"llm": {"digest": digest, "spec": {}}}
    now: dict[str, Any] = {
        "release": release,
        "commit": "c",
        "ref": "HEAD",
        "targets": [],
        "stack": {},
        "patches": {},
    }
    return {**now, "units": units, **changes}


def generation(number: int, health: str = "good", of: int | None = None, **changes: Any) -> dict[str, Any]:
    """One that was noted."""
    about = {"number": number, "health": health, "of": of, "time": 0.0, "author": "", "run": "", "error": ""}
    return {**about, **standing(**changes)}


def told(health: str = "good") -> dict[str, Any]:
    """What a note says beside what stands."""
    return {"health": health, "author": "ops", "run": "r", "error": "", "of": None, "time": 1.0}


def test_the_first_is_number_one() -> None:
    made = document.next_one([], standing(), told())
    assert made is not None
    assert (made["number"], made["of"], made["release"], made["author"]) == (1, None, "a", "ops")


@pytest.mark.parametrize(
    "changes",
    [
        {"release": "b"},
        {"digest": "e"},
        {"targets": [{"root": "/r"}]},
        {"stack": {"vllm": {"version": "1", "record": "r"}}},
        {"patches": {"f": {"pristine": "p", "patched": "q", "patch": "s"}}},
    ],
)
def test_what_differs_is_a_generation_of_its_own(changes: dict[str, Any]) -> None:
    known = [generation(1)]
    assert document.next_one(known, standing(), told()) is None
    made = document.next_one(known, standing(**changes), told())
    assert made is not None
    assert made["number"] == 2


def test_the_name_of_a_ref_makes_none() -> None:
    assert document.same(generation(1), standing(ref="main", commit="x"))


def test_a_bad_one_is_noted_beside_the_same_that_was_good() -> None:
    known = [generation(1), generation(2, release="b")]
    made = document.next_one(known, standing(release="b"), told("bad"))
    assert made is not None
    assert (made["number"], made["health"]) == (3, "bad")


def test_what_was_gone_back_to_is_a_generation_of_its_own() -> None:
    known = [generation(1), generation(2, release="b")]
    back = document.next_one(known, standing(), {**told(), "of": 1})
    assert back is not None
    assert (back["number"], back["of"], back["release"]) == (3, 1, "a")


def test_what_stands_is_the_newest_that_is_the_same() -> None:
    known = [generation(1), generation(2, release="b"), generation(3)]
    found = document.present(known, standing())
    assert found is not None
    assert found["number"] == 3
    assert document.present(known, standing(release="z")) is None


@pytest.mark.parametrize(
    ("now", "units", "services", "obstacle"),
    [
        (standing(), {"llm": {"state": "ready"}}, True, ""),
        (standing(), {"llm": {"state": "ready"}, "old": {"state": "stopped"}}, True, ""),
        (standing(), {}, True, "not everything that is to run is ready: llm"),
        (standing(units={}), {"a": {"state": "stopped", "resumes": True}}, True, "not everything"),
        # stopped by hand, or not begun yet
        (standing(units={}), {}, True, "nothing runs that could be gone back to"),
        (standing(units={}), {}, False, ""),
        (standing(None, units={}), {}, False, "nothing runs"),
    ],
)
def test_what_serves(now: dict[str, Any], units: dict[str, Any], services: bool, obstacle: str) -> None:
    found = document.obstacle(now, units, services=services)
    assert found.startswith(obstacle)
    assert bool(found) == bool(obstacle)


def test_the_newest_good_one_stays_whatever_came_after_it() -> None:
    known = [generation(1), generation(2), *(generation(number, "bad") for number in range(3, 8))]
    assert document.superfluous(known, 3) == [4, 3, 1]
    assert document.superfluous(known, 0) == [6, 5, 4, 3, 1]
