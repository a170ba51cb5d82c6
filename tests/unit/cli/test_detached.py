"""What goes with ``klops exec --detach``, and what doesn't."""

from __future__ import annotations

import pytest

from tests.unit.cli.conftest import LocalHost


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--detach", "--tty"), "--detach goes with none of"),
        (("--detach", "--stdin"), "--detach goes with none of"),
        (("--detach", "--host"), "--detach goes with none of"),
        (("--log", "/tmp/log"), "--log is for --detach"),
        (("--detach", "--log", "log"), "a path of the container from / on"),
    ],
)
def test_options_that_exclude_each_other(host: LocalHost, options: tuple[str, ...], said: str) -> None:
    rc, _, err = host.klops("exec", "here", *options, "--", "true")
    assert rc == 125
    assert said in " ".join(err.split())


def test_check_starts_nothing(host: LocalHost) -> None:
    rc, _, err = host.klops("exec", "here", "--detach", "--check", "--", "touch", "made")
    assert rc == 0
    assert "would run touch made" in err
    assert not (host.home / "made").exists()


def test_a_container_that_is_not_there(host: LocalHost) -> None:
    rc, _, err = host.klops("exec", "here", "--detach", "--", "true")
    assert rc == 125
    assert "here |" in err
    assert "there is no container" in err
