"""Scripts and frames: what is sent, and how the answer is taken apart whatever it contains."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klops.remote.base import Reply
from klops.remote.reads import CommandRead, FileRead
from klops.remote.script import (
    NOISE_LIMIT,
    Identity,
    IncompleteError,
    Opening,
    batch_replies,
    batch_script,
    command_script,
    distinct,
    login_line,
    status_of,
)

SHELLS = ["sh", "bash"]
MARKER = "0123456789abcdef0123456789abcdef"
MARK = f"\n@@{MARKER}".encode()


def section(index: int, content: bytes, rc: int = 0) -> bytes:
    return MARK + b" S %d\n" % index + content + MARK + b" E %d %d\n" % (index, rc)


@given(st.lists(st.tuples(st.binary(), st.binary(), st.integers(0, 255)), max_size=5))
def test_any_content_comes_back_whole(contents: list[tuple[bytes, bytes, int]]) -> None:
    out = b"".join(section(i, o, rc) for i, (o, _, rc) in enumerate(contents))
    err = b"".join(section(i, e, rc) for i, (_, e, rc) in enumerate(contents))
    assert batch_replies(out, err, MARKER, len(contents)) == [Reply(rc, o, e) for o, e, rc in contents]


def test_a_section_that_looks_like_another_s_frame() -> None:
    fake = b"\n@@ffffffffffffffffffffffffffffffff S 1\nx\n@@ffffffffffffffffffffffffffffffff E 1 0\n"
    out = section(0, fake, 3)
    assert batch_replies(out, section(0, b"", 3), MARKER, 1) == [Reply(3, fake, b"")]


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_a_cut_answer_is_incomplete(cut: int) -> None:
    out = section(0, b"first") + section(1, b"second")
    with pytest.raises(IncompleteError, match="1 of 2"):
        batch_replies(out[:-cut], section(0, b"") + section(1, b""), MARKER, 2)


def test_noise_goes_and_the_identity_stays() -> None:
    opening = Opening(MARKER)
    stream = b"hello \x1b[1mthere\xff" + MARK + b" B 12 11 345\n" + b"data\n@@more"
    assert b"".join(opening.feed(stream[i : i + 1]) for i in range(len(stream))) == b"data\n@@more"
    assert opening.identity == Identity(12, 11, 345)
    assert opening.noise == b"hello \x1b[1mthere\xff"


def test_an_opening_without_noise_may_be_the_very_first_line() -> None:
    opening = Opening(MARKER)
    assert opening.feed(MARK[1:] + b" B\nx") == b"x"
    assert opening.identity is None


def test_endless_noise_is_bounded_and_the_line_is_found_after_it() -> None:
    opening = Opening(MARKER)
    for _ in range(100):
        assert opening.feed(b"n" * 10000) == b""
    assert len(opening.noise) <= NOISE_LIMIT + 10000
    assert not opening.seen
    assert opening.feed(MARK + b" B 1 1 1\nx") == b"x"


def test_identical_reads_are_sent_once() -> None:
    reads = [FileRead("a", "/x"), FileRead("b", "/x"), FileRead("c", "/y")]
    assert len(distinct(reads)) == 2


def carried_out(shell: str, *lanes: list[str]) -> list[Reply]:
    """What a shell answers to a batch."""
    script = batch_script(lanes, MARKER)
    argv = [shell, "-c", 'eval "$(cat)"']
    done = subprocess.run(argv, input=script, capture_output=True, check=True, timeout=60)
    out, err = Opening(MARKER), Opening(MARKER)
    count = sum(map(len, lanes))
    return batch_replies(out.feed(done.stdout), err.feed(done.stderr), MARKER, count)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_batch_as_a_shell_runs_it(shell: str) -> None:
    scripts = [
        "printf '\\0\\377'; exit 3",
        "cat",
        "cat <<'END'\nits own $input\nEND\n",
        "echo err >&2; false",
        CommandRead("c", ("test", "a b")).script,
    ]
    replies = carried_out(shell, scripts)
    assert [r.rc for r in replies] == [3, 0, 0, 1, 0]
    assert replies[0].stdout == b"\0\xff"
    assert replies[1].stdout == b""
    assert replies[2].stdout == b"its own $input\n"
    assert replies[3].stderr == b"err\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_lanes_run_side_by_side_and_answer_one_after_the_other(shell: str, tmp_path: Path) -> None:
    for name in "ab":
        os.mkfifo(tmp_path / name)
    there, back = (shlex.quote(str(tmp_path / name)) for name in "ab")
    replies = carried_out(
        shell,
        # each waits for the other, so one after the other they would never end
        [f'read -r said <{there}; echo "$said"; echo no >&2; exit 4', f"echo answer >{back}; cat"],
        [f'echo question >{there}; read -r said <{back}; echo "$said"; echo yes >&2', "exit 5"],
    )
    assert replies == [
        Reply(4, b"question\n", b"no\n"),
        Reply(0, b"", b""),
        Reply(0, b"answer\n", b"yes\n"),
        Reply(5, b"", b""),
    ]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_lane_may_say_more_than_a_pipe_takes_while_it_is_not_its_turn(shell: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "full")
    full = shlex.quote(str(tmp_path / "full"))
    much = "head -c 300000 /dev/zero; head -c 200000 /dev/zero >&2"
    lanes = [f"read -r _ <{full}; {much}"], [f"echo >{full}; {much}"], [much, "echo end"]
    replies = carried_out(shell, *lanes)
    assert replies == [Reply(0, bytes(300000), bytes(200000))] * 3 + [Reply(0, b"end\n", b"")]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_has_no_stream_but_its_own_and_a_later_one_knows_how_the_earlier_ended(shell: str) -> None:
    # the shell's own way of putting streams back has numbers from 10 on, which no command inherits
    streams = "exec ls /proc/self/fd"
    lanes = [streams, "exit 3"], [streams, "exit 4", f"echo {status_of(3)}"], [streams, "exit 6"]
    replies = carried_out(shell, *lanes)
    assert [reply.rc for reply in replies] == [0, 3, 0, 4, 0, 0, 6]
    assert replies[4].stdout == b"4\n"
    for reply in (replies[0], replies[2], replies[5]):
        # the last one is that of the folder
        assert reply.stdout.split()[:-1] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("shell", SHELLS)
def test_what_a_script_leaves_running_keeps_no_lane_waiting(shell: str, tmp_path: Path) -> None:
    end = tmp_path / "end"
    os.mkfifo(end)
    stays = f"cat {shlex.quote(str(end))} >/dev/null 2>&1 & echo begun"
    replies = carried_out(shell, [stays], [stays])
    with end.open("w"):  # which waits for those who read it
        pass
    assert [reply.stdout for reply in replies] == [b"begun\n", b"begun\n"]


@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_of_a_script_that_arrives_cut_off_is_run(shell: str) -> None:
    whole = command_script(["echo", "ran"], MARKER, env={"A": "b"})
    for size in range(len(whole)):
        done = subprocess.run(
            [shell, "-c", 'eval "$(cat)"'], input=whole[:size], capture_output=True, check=False
        )
        assert b"ran" not in done.stdout


def test_what_a_script_can_t_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="zero byte"):
        command_script(["echo", "a\0b"], MARKER)
    with pytest.raises(ValueError, match="not a name"):
        command_script(["env"], MARKER, env={"A B": "c"})
    with pytest.raises(ValueError, match="empty"):
        command_script([], MARKER)


def test_values_of_the_environment_are_no_words_of_the_login_line() -> None:
    line = login_line(("sh", "-c", 'eval "$(cat)"'))
    assert line == "exec sh -c 'eval \"$(cat)\"'"
