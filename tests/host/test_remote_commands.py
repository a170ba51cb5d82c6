"""What a command may do to the one who waits for it: over ssh and locally, the same answers."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from klops.errors import CommandFailed, CommandTimeout, Interrupted
from klops.remote import script
from klops.remote.base import Remote
from klops.remote.local import ProcessPipes
from klops.remote.reads import ABSENT, CommandRead, FileRead, ListRead
from klops.remote.ssh import ChannelPipes, SshRemote
from tests.host.processes import running, until_runs
from tests.host.sshd import Sshd
from tests.waiting import until

pytestmark = pytest.mark.host


def test_status_and_streams(remote: Remote) -> None:
    done = remote.run(["sh", "-c", "echo out; echo err >&2; exit 3"], check=False)
    assert (done.rc, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    assert remote.run(["sh", "-c", "kill -9 $$"], check=False).rc == 137
    with pytest.raises(CommandFailed, match="ended with 127") as caught:
        remote.run(["no-such-program-anywhere"])
    assert caught.value.rc == 127
    assert "PATH" in caught.value.hint


def test_words_arrive_as_they_are(remote: Remote) -> None:
    words = [
        "",
        "a b",
        "it's",
        '"$HOME"',
        "`id`",
        "\\",
        "*",
        "~",
        "-n",
        "é漢",
        "new\nline",
        "!x",
        ";",
        "\x01",
    ]
    done = remote.run(["printf", "%s\\0", *words])
    assert done.stdout.decode().split("\0")[:-1] == words


def test_environment_folder_and_input(remote: Remote, tmp_path: Path) -> None:
    value = "with 'quotes' \"and\" $dollars\nand a line"
    done = remote.run(
        ["sh", "-c", 'printf %s "$SECRET"; pwd; cat'],
        env={"SECRET": value},
        cwd=str(tmp_path),
        stdin=b"\0\xff\n",
    )
    assert done.stdout == value.encode() + f"{tmp_path}\n".encode() + b"\0\xff\n"
    with pytest.raises(CommandFailed):
        remote.run(["true"], cwd=str(tmp_path / "absent"))


def test_without_input_it_is_empty(remote: Remote) -> None:
    assert remote.run(["cat"], timeout=10).stdout == b""


def test_row_E29_much_on_both_streams_at_once(remote: Remote) -> None:
    size = 10 * 1024 * 1024
    text = f"head -c {size} /dev/urandom & head -c {size} /dev/urandom >&2; wait; exit 4"
    done = remote.run(["sh", "-c", text], check=False)
    assert (done.rc, len(done.stdout), len(done.stderr), done.truncated) == (4, size, size, False)


def test_row_E29_long_lines_and_one_stream_only(remote: Remote) -> None:
    text = (
        "head -c 5242880 /dev/zero >&2; for i in 1 2 3; do head -c 1048576 /dev/zero | tr '\\0' x; echo; done"
    )
    done = remote.run(["sh", "-c", text])
    assert done.stderr == bytes(5242880)
    assert [len(line) for line in done.stdout.splitlines()] == [1048576] * 3


def test_row_E29_more_than_the_limit_is_cut_and_said(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klops.remote.shell.OUTPUT_LIMIT", 1000)
    done = remote.run(["head", "-c", "100000", "/dev/zero"])
    assert (len(done.stdout), done.truncated, done.rc) == (1000, True, 0)


def test_large_input_while_output_is_not_read_first(remote: Remote) -> None:
    data = os.urandom(8 * 1024 * 1024)
    assert remote.run(["cat"], stdin=data).stdout == data


def test_input_that_nobody_reads(remote: Remote) -> None:
    assert remote.run(["true"], stdin=bytes(8 * 1024 * 1024), timeout=20).rc == 0


def test_row_E29_a_child_that_holds_the_streams(remote: Remote) -> None:
    done = remote.run(["sh", "-c", "sleep 987.1 & echo $!; exit 3"], check=False)
    assert done.rc == 3
    child = int(done.stdout)
    # it wasn't waited for, and a detached child is not klops' to end
    assert running("sleep", "987.1") == [child]
    os.kill(child, 15)


@pytest.mark.parametrize("stubborn", [False, True])
def test_row_E29_a_timeout_leaves_no_process(remote: Remote, stubborn: bool) -> None:
    trap = "trap '' TERM; " if stubborn else ""
    with pytest.raises(CommandTimeout, match=r"did not end within 1 s, and was ended"):
        remote.run(["sh", "-c", f"{trap}sleep 987.2; sleep 987.2"], timeout=1)
    assert running("sleep", "987.2") == []
    assert remote.run(["echo", "fine"]).text == "fine\n"


def test_a_timeout_in_the_middle_of_output(remote: Remote) -> None:
    with pytest.raises(CommandTimeout):
        remote.run(["yes", "987.3"], timeout=1)
    assert running("yes", "987.3") == []


def test_closing_from_another_thread_ends_the_command(remote: Remote) -> None:
    def close_when_it_runs() -> None:
        until_runs("sleep", "987.4")
        remote.close()

    closer = threading.Thread(target=close_when_it_runs)
    closer.start()
    with pytest.raises(Interrupted):
        remote.run(["sleep", "987.4"])
    closer.join()
    assert running("sleep", "987.4") == []


@pytest.mark.parametrize("stdin", [b"", b"more"])
def test_a_command_is_ended_whose_first_line_is_still_under_way(
    remote: Remote, monkeypatch: pytest.MonkeyPatch, stdin: bytes
) -> None:
    pipes = ChannelPipes if isinstance(remote, SshRemote) else ProcessPipes
    take = pipes.take
    interrupted = threading.Event()
    late = iter(range(5))

    def slow(self: Any) -> tuple[bytes, bytes]:
        """Nothing arrives before the interrupt, nor at once after it."""
        under_way = not interrupted.is_set() or next(late, None) is not None
        return (b"", b"") if under_way else take(self)

    def close_when_it_runs() -> None:
        until_runs("sleep", "987.6")
        interrupted.set()
        working.close()

    working = remote.clone()
    closer = threading.Thread(target=close_when_it_runs)
    monkeypatch.setattr(pipes, "take", slow)
    closer.start()
    with pytest.raises(Interrupted):
        working.run(["sleep", "987.6"], stdin=stdin)
    closer.join()
    assert running("sleep", "987.6") == []


def test_a_command_that_begins_when_nobody_listens_any_more_does_not_run(tmp_path: Path) -> None:
    text = script.command_script(["touch", str(tmp_path / "ran")], "m")
    with subprocess.Popen(
        script.EVAL_ALL, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as shell:
        assert shell.stdout is not None
        shell.stdout.close()
        shell.communicate(text, timeout=20)
    assert shell.returncode == -signal.SIGPIPE
    assert not (tmp_path / "ran").exists()


def test_an_interrupt_in_a_sink_ends_the_command(remote: Remote) -> None:
    def interrupt(_: bytes) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        remote.stream(["sh", "-c", "echo x; sleep 987.5"], on_stdout=interrupt, on_stderr=interrupt)
    assert running("sleep", "987.5") == []


def test_input_stays_open_until_the_command_is_ended(remote: Remote) -> None:
    seen: list[bytes] = []
    with pytest.raises(CommandTimeout):
        remote.stream(
            ["cat"], on_stdout=seen.append, on_stderr=seen.append, stdin=b"given", keep_stdin=True, timeout=1
        )
    assert b"".join(seen) == b"given"
    # one that ends by itself is not waited for
    rc = remote.stream(["sh", "-c", "exit 3"], on_stdout=seen.append, on_stderr=seen.append, keep_stdin=True)
    assert rc == 3


def test_pieces_are_sent_while_the_output_is_heard(remote: Remote) -> None:
    """More than any window or pipe holds goes through a command that answers as it reads."""
    block, blocks = os.urandom(1 << 20), 24
    sent, heard = hashlib.sha256(), hashlib.sha256()
    back = 0

    def pieces() -> Iterator[bytes]:
        for number in range(blocks):
            # windows and pipes hold some of it, never all
            assert back or number < blocks - 4
            sent.update(block)
            yield block

    def hear(data: bytes) -> None:
        nonlocal back
        heard.update(data)
        back += len(data)

    rc = remote.stream(["cat"], on_stdout=hear, on_stderr=hear, stdin=pieces(), timeout=60)
    assert (rc, back, heard.digest()) == (0, blocks * len(block), sent.digest())


def test_a_piece_that_cannot_be_made_ends_the_command(remote: Remote, tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"begin"
        until((tmp_path / "begun").exists)
        raise OSError("the disk is gone")

    # whoever would take the end of what was cut off for its end could write this
    text = f"touch '{tmp_path}/begun'; cat >/dev/null; touch '{tmp_path}/whole'; sleep 987.6"
    with pytest.raises(OSError, match="the disk is gone"):
        remote.stream(["sh", "-c", text], on_stdout=print, on_stderr=print, stdin=pieces(), timeout=30)
    assert running("sleep", "987.6") == []
    assert not (tmp_path / "whole").exists()


def test_a_pipe_or_a_folder_is_no_file_to_read(remote: Remote, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    paths = {"fifo": tmp_path / "fifo", "link": tmp_path / "link", "folder": tmp_path, "device": "/dev/zero"}
    replies = remote.read([FileRead(key, str(path)) for key, path in paths.items()], timeout=10)
    assert {key: (reply.rc, reply.stdout, reply.stderr) for key, reply in replies.items()} == dict.fromkeys(
        paths, (1, b"", b"not a regular file\n")
    )


def test_output_comes_as_it_is_made(remote: Remote, tmp_path: Path) -> None:
    seen: list[bytes] = []
    heard = tmp_path / "heard"

    def hear(data: bytes) -> None:
        seen.append(data)
        heard.touch()

    # the second line is written only after the first has come
    text = f"echo one; until [ -e '{heard}' ]; do sleep 0.02; done; echo two; exit 6"
    rc = remote.stream(["sh", "-c", text], on_stdout=hear, on_stderr=hear, timeout=30)
    assert rc == 6
    assert seen == [b"one\n", b"two\n"]


def test_reads_in_one_command(remote: Remote, tmp_path: Path) -> None:
    blob = os.urandom(5000) + b"\n@@x\n"
    (tmp_path / "blob").write_bytes(blob)
    before = remote.commands_run
    replies = remote.read(
        [
            FileRead("blob", str(tmp_path / "blob")),
            FileRead("same", str(tmp_path / "blob")),
            FileRead("absent", str(tmp_path / "absent")),
            ListRead("list", (str(tmp_path), str(tmp_path / "absent"))),
            CommandRead("command", ("cat", "-")),
        ]
    )
    assert remote.commands_run == before + 1
    assert replies["blob"].stdout == replies["same"].stdout == blob
    assert replies["absent"].rc == ABSENT
    assert replies["list"].rc != 0
    assert b"No such file" in replies["list"].stderr
    assert (replies["command"].rc, replies["command"].stdout) == (0, b"")


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755])
def test_put(remote: Remote, tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a" / "it's new" / "file"
    before = remote.commands_run
    old = os.umask(0o077)
    try:
        remote.put(b"\0binary\xff" * 1000, str(path), mode=mode)
        remote.put(b"second", str(path), mode=mode)
    finally:
        os.umask(old)
    assert remote.commands_run == before + 2
    assert path.read_bytes() == b"second"
    assert path.stat().st_mode & 0o7777 == mode
    assert path.parent.stat().st_mode & 0o777 == 0o755
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_put_that_fails_leaves_nothing(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(CommandFailed, match="is a directory"):
        remote.put(b"x", str(tmp_path / "folder"))
    (tmp_path / "plain").write_text("")
    with pytest.raises(CommandFailed, match="was not written"):
        remote.put(b"x", str(tmp_path / "plain" / "below"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "plain"]


def test_put_of_a_cut_stream_leaves_the_old_file(sshd: Sshd, tmp_path: Path) -> None:
    from klops.remote.placing import put_argv, put_input

    path = tmp_path / "file"
    path.write_bytes(b"old")
    argv = put_argv(str(path), 1000, 0o644, "")
    done = subprocess.run(argv, input=put_input(bytes(960), ""), capture_output=True, check=False)
    assert done.returncode == 74
    assert b"960 of 1000 bytes arrived" in done.stderr
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_connections(remote: Remote, sshd: Sshd) -> None:
    stream = remote.connect("127.0.0.1", sshd.port, timeout=5)
    stream.settimeout(5)
    assert stream.recv(4) == b"SSH-"
    stream.close()
    with pytest.raises(OSError, match=r"refused|failed"):
        remote.connect("127.0.0.1", 1, timeout=5)


def test_a_clone_works_beside(remote: Remote) -> None:
    other = remote.clone()
    before = remote.commands_run
    seen: list[str] = []
    beside = threading.Thread(target=lambda: seen.append(other.run(["echo", "beside"]).text))
    beside.start()
    assert remote.run(["sh", "-c", "sleep 0.3; echo main"]).text == "main\n"
    beside.join()
    assert seen == ["beside\n"]
    assert remote.commands_run == before + 2
    other.close()
    assert remote.run(["echo", "still"]).text == "still\n"
