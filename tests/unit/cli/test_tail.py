from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from klops.cli.tail import REMEMBERED, Tail


def collect() -> tuple[Tail, list[str]]:
    shown: list[str] = []
    return Tail(shown.append), shown


def test_only_whole_lines_are_handed_on_until_the_end() -> None:
    tail, shown = collect()
    tail.feed(b"one\ntw")
    tail.feed(b"o\r 50%\rthree")
    assert "".join(shown) == "one\ntwo\r 50%\r"
    tail.finish()
    assert "".join(shown) == "one\ntwo\r 50%\rthree"


def test_a_secret_split_over_two_pieces_arrives_in_one() -> None:
    tail, shown = collect()
    tail.feed(b"key=SEC")
    tail.feed(b"RET\n")
    assert shown == ["key=SECRET\n"]


LOG = b"".join(b"%06d a line of the log\n" % n for n in range(400))


@settings(deadline=None, max_examples=60)
@given(cut=st.integers(1, len(LOG)), begin=st.floats(0, 1), sizes=st.integers(1, 5000))
def test_after_a_broken_link_nothing_is_lost_and_nothing_shown_twice(
    cut: int, begin: float, sizes: int
) -> None:
    tail, shown = collect()
    tail.feed(LOG[:cut])
    tail.resume()
    # the host sends again from some line before the cut, far enough back to hold what was shown last
    start = LOG.rfind(b"\n", 0, int(max(0, cut - REMEMBERED - 64) * begin) + 1) + 1
    for at in range(start, len(LOG), sizes):
        tail.feed(LOG[at : at + sizes])
    tail.finish()
    assert "".join(shown).encode() == LOG


def test_a_link_that_breaks_twice() -> None:
    tail, shown = collect()
    tail.feed(LOG[:5000])
    tail.resume()
    tail.feed(LOG[:3000])
    tail.resume()
    tail.feed(LOG)
    tail.finish()
    assert "".join(shown).encode() == LOG


def test_a_log_that_was_replaced_meanwhile_is_shown_with_a_note() -> None:
    tail, shown = collect()
    tail.feed(b"old\n")
    tail.resume()
    tail.feed(b"something else\n")
    tail.finish()
    assert shown[0] == "old\n"
    assert "may be missing" in shown[1]
    assert shown[2] == "something else\n"
