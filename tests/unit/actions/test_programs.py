"""command, shell and script on this machine; what they register was seen of Ansible 2.19's."""

from __future__ import annotations

import datetime
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from klops.actions.base import Context
from klops.actions.programs.programs import RunCommand, not_started
from klops.actions.programs.script import RUN, interpreter
from klops.errors import CommandFailed, Interrupted, TaskFailed
from klops.remote.base import Completed
from klops.remote.fake import FakeRemote
from tests.unit.actions.carry import Carrier
from tests.waiting import until

#: keys that Ansible registers for a command that ran; truncated is klops' own
REGISTERED = {
    *("changed", "cmd", "delta", "end", "msg", "rc", "start"),
    *("stderr", "stderr_lines", "stdout", "stdout_lines", "truncated"),
}


@pytest.fixture
def here(tmp_path: Path) -> Carrier:
    """This machine."""
    return Carrier(tmp_path)


def test_what_a_command_registers(here: Carrier) -> None:
    got = here.run("command", cmd="sh -c 'echo a; echo; echo b >&2; echo'")
    assert set(got) == REGISTERED
    assert got["changed"] is True
    assert (got["rc"], got["msg"]) == (0, "")
    assert got["cmd"] == ["sh", "-c", "echo a; echo; echo b >&2; echo"]
    # the line breaks at the end go
    assert (got["stdout"], got["stdout_lines"]) == ("a", ["a"])
    assert (got["stderr"], got["stderr_lines"]) == ("b", ["b"])
    start, end = (datetime.datetime.fromisoformat(got[key]) for key in ("start", "end"))
    assert got["delta"] == str(end - start)


def test_ends_of_the_output_are_kept_on_request(here: Carrier) -> None:
    got = here.run("command", argv=["printf", "a\n\n"], strip_empty_ends=False)
    assert (got["stdout"], got["stdout_lines"]) == ("a\n\n", ["a", ""])


def test_what_a_failed_command_registers(here: Carrier) -> None:
    with pytest.raises(CommandFailed, match="ended with 3: why") as caught:
        here.run("command", cmd="sh -c 'echo out; echo why >&2; exit 3'")
    values = caught.value.values
    assert set(values) == REGISTERED
    assert (values["rc"], values["stdout"], values["stderr"]) == (3, "out", "why")
    assert (values["changed"], values["msg"]) == (True, "non-zero return code")


def test_a_folder_that_is_not_there(here: Carrier) -> None:
    with pytest.raises(TaskFailed) as caught:
        here.run("command", cmd="touch x", chdir=str(here.files / "none"))
    values = caught.value.values
    assert (values["rc"], values["start"], values["cmd"]) == (None, None, ["touch", "x"])
    assert caught.value.code == "absent"


def test_arguments_are_expanded_by_the_host(here: Carrier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home of")
    monkeypatch.delenv("NOPE", raising=False)
    here.environment = {"GIVEN": "$HOME; echo `id` *"}
    argv = [
        "printf",
        "%s\n",
        "$HOME",
        "${HOME}y",
        "~",
        "~/a b",
        "a~",
        "$NOPE",
        "${NOPE}",
        "$1",
        "$GIVEN",
        "*",
        "$IFS",
    ]
    expected = ["/home of", "/home ofy", "/home of", "/home of/a b", "a~", "$NOPE", "${NOPE}", "$1"]
    assert here.run("command", argv=argv)["stdout_lines"] == [*expected, "$HOME; echo `id` *", "*", "$IFS"]
    as_written = here.run("command", argv=argv, expand_argument_vars=False)
    assert as_written["stdout_lines"] == argv[2:]
    assert as_written["cmd"] == argv


def test_input_and_folder(here: Carrier) -> None:
    folder = here.files / "a b"
    folder.mkdir()
    got = here.run("command", cmd="sh -c 'cat; pwd'", stdin="é", chdir=str(folder))
    assert got["stdout_lines"] == ["é", str(folder)]
    assert here.run("command", cmd="cat", stdin="x", stdin_add_newline=False)["stdout"] == "x"
    assert here.run("shell", cmd="wc -c; pwd", chdir=str(folder), stdin="x")["stdout_lines"] == [
        "2",
        str(folder),
    ]
    assert here.run("command", cmd="cat")["stdout"] == ""


def test_creates_is_seen_from_the_folder_and_may_be_a_pattern(here: Carrier) -> None:
    given = {"chdir": str(here.files), "creates": "a [b]*.t?t"}
    assert here.run("shell", cmd="touch 'a bx.txt'", **given)["changed"] is True
    again = here.run("shell", cmd="exit 1", **given)
    assert again["changed"] is False
    assert again["stdout"] == "skipped, since a [b]*.t?t exists"
    assert (again["rc"], again["start"], again["stderr_lines"]) == (0, None, [])
    # a link that leads nowhere is there
    (here.files / "dangling").symlink_to("nowhere")
    assert here.run("shell", cmd="exit 1", creates=str(here.files / "dangling"))["changed"] is False
    assert here.run("shell", cmd="exit 1", removes=str(here.files / "none*"))["changed"] is False


def test_a_shell(here: Carrier) -> None:
    got = here.run("shell", cmd="x=1; echo $((x + 1)) | tr 2 3; echo $0")
    assert (got["stdout_lines"], got["cmd"]) == (["3", "/bin/sh"], "x=1; echo $((x + 1)) | tr 2 3; echo $0")
    assert set(got) == REGISTERED


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="no /bin/bash here")
def test_another_shell(here: Carrier) -> None:
    got = here.run("shell", cmd="set -o pipefail; echo $0 ${BASH_VERSION:+bash}", executable="/bin/bash")
    assert got["stdout"] == "/bin/bash bash"
    with pytest.raises(CommandFailed) as caught:
        here.run("shell", cmd="set -o pipefail; false | true", executable="/bin/bash")
    assert caught.value.values["rc"] == 1


def test_the_environment_of_a_task(here: Carrier) -> None:
    here.environment = {"A_B": "it's $HOME"}
    (here.files / "s").write_text("echo $A_B\n")
    assert here.run("shell", cmd="echo $A_B")["stdout"] == "it's $HOME"
    assert here.run("command", cmd="printenv A_B")["stdout"] == "it's $HOME"
    assert here.run("script", cmd="s")["stdout"] == "it's $HOME\n"


def test_output_of_any_bytes_and_size(here: Carrier) -> None:
    got = here.run("shell", cmd="printf '\\377\\0x'; head -c 3000000 /dev/zero | tr '\\0' a")
    assert got["stdout"].startswith("�\0x")
    assert len(got["stdout"]) == 3000003
    assert got["truncated"] is False


def test_output_that_was_cut_is_told(here: Carrier) -> None:
    class Talkative(FakeRemote):
        def run(self, argv: Sequence[str], **given: Any) -> Completed:
            return replace(super().run(argv, **given), truncated=True)

    context = Context(Talkative().on("seq", "1\n"), here.view, here.progress.append, here.warned.append)
    assert (RunCommand(("seq", "9")).carry_out(context) or {})["truncated"] is True
    assert here.warned == ["seq said more than 32 MiB: what is beyond that is not registered"]


# -- scripts -------------------------------------------------------------------------------------------------


@pytest.fixture
def temporary(tmp_path: Path, here: Carrier) -> Path:
    """The folder for temporary files on the host."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    here.environment = {"TMPDIR": str(folder)}
    return folder


def test_a_script(here: Carrier, temporary: Path) -> None:
    # the arguments are the host's shell's to read, as in Ansible: quotes, variables and patterns
    (here.files / "my script.sh").write_text(
        '#!/bin/sh\necho "$#" "$@"; pwd; echo err >&2; cat; ls -ld "$0" "${0%/*}"; umask\n'
    )
    got = here.run("script", cmd="'my script.sh' 'a  b' $TMPDIR my*", chdir=str(here.files))
    first, folder, above, script, umask = got["stdout_lines"]
    assert first == f"3 a  b {temporary} my script.sh"
    assert folder == str(here.files)
    assert script.startswith("-rwx------")
    assert above.startswith("drwx------")
    assert int(umask, 8) == int(subprocess.check_output(["sh", "-c", "umask"]), 8)
    assert got["stderr"] == "err\n"
    assert set(got) == {"changed", "rc", "stdout", "stdout_lines", "stderr", "stderr_lines", "truncated"}
    assert list(temporary.iterdir()) == []


def test_a_script_that_fails_leaves_nothing(here: Carrier, temporary: Path) -> None:
    (here.files / "s.sh").write_text("echo so; exit 7\n")
    with pytest.raises(CommandFailed, match=r"the script s\.sh 1 ended with 7: so") as caught:
        here.run("script", cmd="s.sh 1")
    assert (caught.value.values["rc"], caught.value.values["stdout"]) == (7, "so\n")
    assert list(temporary.iterdir()) == []


def test_an_interrupted_script_leaves_nothing(here: Carrier, temporary: Path) -> None:
    # it ignores what is to end it, as some do
    (here.files / "s.sh").write_text(
        f"trap '' TERM\n: > {temporary.parent}/began\nwhile :; do sleep 0.1; done\n"
    )
    caught: list[BaseException] = []

    def work() -> None:
        try:
            here.run("script", cmd="s.sh")
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    until((temporary.parent / "began").exists)
    here.remote.close()
    thread.join(20)
    assert isinstance(caught[0], Interrupted)
    assert list(temporary.iterdir()) == []


def test_a_script_of_another_language(here: Carrier) -> None:
    (here.files / "s.py").write_bytes(
        b"#!/usr/bin/env python3\nimport sys; print(sys.argv[1:], sys.stdin.read())\n"
    )
    if shutil.which("python3") is None:
        pytest.skip("no python3 here")
    assert here.run("script", cmd="s.py a")["stdout"] == "['a'] \n"
    # executable is read by the shell too, so it may have options
    (here.files / "t").write_text("import sys; print(sys.flags.isolated)\n")
    assert here.run("script", cmd="t", executable="python3 -I")["stdout"] == "1\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["sh"]),
        (b"echo", ["sh"]),
        (b"#!/bin/bash -e -u\necho", ["/bin/bash", "-e -u"]),
        (b"#! /usr/bin/perl\r\n", ["/usr/bin/perl"]),
        (b"#!\n", ["sh"]),
        (b"\x7fELF\0", []),
    ],
)
def test_what_runs_a_script(content: bytes, words: list[str]) -> None:
    assert interpreter(content) == words


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_the_wrapper_in_other_shells(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    argv = [shell, *(["sh"] if shell == "busybox" else []), "-c", RUN, "t", "s x", "13", "", 'sh "$s" "a  b"']
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(argv, input=b'echo "$1"; :\n', capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"a  b\n", b"")
    cut = subprocess.run(argv, input=b"echo", capture_output=True, env=environment, check=False)
    assert (cut.returncode, cut.stdout) == (74, b"")
    assert list(tmp_path.iterdir()) == []


def test_a_script_killed_by_a_signal(here: Carrier) -> None:
    (here.files / "s.sh").write_text("kill -9 $$\n")
    with pytest.raises(CommandFailed) as caught:
        here.run("script", cmd="s.sh")
    assert caught.value.values["rc"] == 128 + signal.SIGKILL


def test_a_script_heeds_what_a_terminal_sends(here: Carrier) -> None:
    (here.files / "s.sh").write_text("kill -INT $$; echo lives\n")
    with pytest.raises(CommandFailed) as caught:
        here.run("script", cmd="s.sh")
    assert caught.value.values["stdout"] == ""


@pytest.mark.parametrize(
    ("said", "is_so"),
    [
        ("sh: 1: exec: prog: not found\n", True),
        ("bash: line 1: prog: command not found\n", True),
        ("bash: ligne 1 : prog : commande introuvable\n", True),
        ("bash: 行 1: prog：未找到命令\n", True),
        ("prog: 3 cards are not found\n", False),
        ("sh: prog: not found\nand more\n", False),
    ],
)
def test_what_could_not_be_started_is_told_in_any_language(said: str, is_so: bool) -> None:
    assert not_started("prog", Completed(("prog",), 127, b"", said.encode(), 0.0)) is is_so


def test_a_failed_command_says_that_its_output_was_cut(here: Carrier) -> None:
    remote = FakeRemote()
    remote.run = lambda *_, **__: Completed(("prog",), 1, b"", b"", 0.0, truncated=True)  # type: ignore[method-assign]
    with pytest.raises(CommandFailed):
        RunCommand(("prog",)).carry_out(Context(remote, here.view, here.progress.append, here.warned.append))
    assert "prog said more than" in here.warned[0]
