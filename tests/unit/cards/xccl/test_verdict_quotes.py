from __future__ import annotations

import pytest

from klops.cards.xccl.judging.quotes import KNOWN, essence, known


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("[XCCL][util.cpp:346] dev 0 addr_window not properly set", "addr_window"),
        ("[XCCL][init.cpp:1275] host 10.0.0.1 addr_window check failed", "addr_window"),
        ("ValueError: [INVALID PARAMETER]: error code= 1(at /x/XCCLUtils.hpp:53)", "invalid-parameter"),
        ("dev 0 port 3 xpulink not active", "xpulink-inactive"),
        (
            "multiple devices are mapped to the same oam id, this is probably due to misuse of XRE lib",
            "same-oam",
        ),
        ("RuntimeError: Distributed package doesn't have XCCL built in", "no-xccl"),
        ("[ERROR][XPURT] Initialize default context for dev -1 fail", "no-context"),
        ("[WARN][BKCL] init device param failed", "device-params"),
        ("cuiInitCheckCtx status= 700", "illegal-address"),
        ("RuntimeError: status= 713", "needs-reset"),
        ("ValueError: stoi", "debug-level"),
        ("OSError: [Errno 28] No space left on device", "shared-memory"),
        # harmless ones, and what only looks alike
        ("[WARN][BKCL][globals.cpp:259] xccl version: 7b9c31e [rdma]", None),
        ("WARNING! Fallback to PCIE, because no XPULINK ring found.", None),
        ("a stoic error of historic interest", None),
        ("", None),
    ],
)
def test_known_lines(line: str, name: str | None) -> None:
    quote = known(line)
    assert (quote.name if quote else None) == name


def test_each_has_a_meaning_and_a_hint_and_nobody_is_told_that_klops_sets_anything() -> None:
    assert len({quote.name for quote in KNOWN}) == len(KNOWN)
    for quote in KNOWN:
        assert quote.means
        assert quote.hints
        assert all(fragment == fragment.lower() for fragment in quote.fragments)
        for hint in quote.hints:
            assert "BKCL_CHECK_AW" not in hint or "klops never sets them" in hint


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("dev 0 addr_window not properly set", "host 10.0.0.1 addr_window check failed"),
        ("Connection closed by peer [127.0.0.1]:52144", "connection closed by peer [10.1.2.3]:80"),
        ("timed out, context 0x7f3a9c0011aa", "timed out, context 0x55d0c0ffee42"),
        ("cannot read /tmp/run-3fa9/store7: gone", "cannot read /tmp/run-b21c/store12: gone"),
        ("[x.cpp:534] rank 3 left", "[x.cpp:538]  rank 11 left"),
        ("rank 3 left; log: hello", "rank 4 left; log: something else"),
    ],
)
def test_the_same_error_of_two_ranks(one: str, other: str) -> None:
    assert essence(one) == essence(other)


def test_other_errors_stay_apart() -> None:
    assert essence("connection closed by peer") != essence("connection refused by peer")
    assert essence("a facade of beads failed") == "a facade of beads failed"
