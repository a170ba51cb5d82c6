"""When a server that seems idle is asked for a completion, and when its silence counts."""

from __future__ import annotations

import socket

import pytest

from klops.agent.processes import clients
from klops.agent.units.canary import Canary

STALL = 120.0


def asked(answers: bool | None, seconds: int, *, moves: bool = False) -> tuple[list[int], list[int]]:
    """Check every 5 seconds; the seconds at which it was asked, and those at which it counts as silent."""
    one, questions, silent = Canary(), [], []
    for now in range(0, seconds, 5):
        due = one.due(float(now))
        if due:
            questions.append(now)
        one.saw(
            float(now),
            STALL,
            idle=True,
            moved=moves or bool(due and answers),
            answered=answers if due else None,
        )
        if one.silent(float(now), STALL):
            silent.append(now)
    return questions, silent


def test_one_that_answers_is_asked_now_and_then() -> None:
    assert asked(True, 1000) == ([60, 360, 660, 960], [])


def test_one_that_moves_is_never_asked() -> None:
    assert asked(True, 1000, moves=True) == ([], [])


def test_one_that_is_silent_is_asked_a_few_times_and_then_seldom() -> None:
    questions, silent = asked(False, 1000)
    assert questions == [60, 90, 120, 150, 180, 480, 780]
    assert silent == list(range(180, 1000, 5))


def test_where_nobody_is_connected_nothing_was_asked_and_nothing_is_said() -> None:
    assert asked(None, 1000)[1] == []


@pytest.mark.parametrize(
    ("idle", "moved", "answered"), [(True, True, None), (False, False, None), (True, False, True)]
)
def test_any_sign_of_life_ends_the_doubt(idle: bool, moved: bool, answered: bool | None) -> None:
    one = Canary()
    for now in (0.0, 60.0, 90.0, 200.0):
        one.saw(now, STALL, idle=True, moved=False, answered=False if now else None)
    assert one.silent(200.0, STALL) == 140.0
    assert one.doubts
    one.saw(205.0, STALL, idle, moved, answered)
    assert (one.silent(205.0, STALL), one.doubts) == (0.0, False)
    assert not one.due(206.0)


def test_connections_to_a_port_are_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert clients.connected(port) == 0
        with socket.create_connection(("127.0.0.1", port)):
            assert clients.connected(port) == 1
