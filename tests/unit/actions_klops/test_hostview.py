"""What the shared reads say."""

from __future__ import annotations

import pytest

from klops.actions.hostview import host_pids, look
from klops.inventory.settings import Settings
from klops.remote.base import Reply


def test_a_process_in_a_pid_namespace_of_its_own_takes_no_other_ones_place() -> None:
    text = b"/proc/4020/status:NSpid:\t4020\t20\n/proc/4099/status:NSpid:\t4099\t77\t20\n"
    assert host_pids(Reply(0, text)) == {20: 4020, 77: 4099}


def test_a_process_of_the_host_itself_is_none_of_the_containers() -> None:
    assert host_pids(Reply(0, b"/proc/1/status:NSpid:\t1\n/proc/2/status:NSpid:\t2\t3\n")) == {3: 2}


@pytest.mark.parametrize(
    ("state", "at_rest"),
    [
        ("created", True),
        ("exited", True),
        ("dead", True),
        ("running", False),
        ("paused", False),
        ("restarting", False),
        ("removing", False),
    ],
)
def test_states_in_which_surely_no_process_lives(state: str, at_rest: bool) -> None:
    text = f'[{{"Id": "c0ffee", "State": {{"Status": "{state}"}}}}]'
    replies = {
        "docker.version": Reply(0, b'{"Server": {"Version": "24"}}'),
        "container": Reply(0, text.encode()),
    }
    assert look(replies, Settings()).at_rest is at_rest
