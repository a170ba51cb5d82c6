"""What the shared reads say."""

from __future__ import annotations

import pytest

from klops.actions.own.hostview import look
from klops.inventory.settings import Settings
from klops.remote.base import Reply


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
