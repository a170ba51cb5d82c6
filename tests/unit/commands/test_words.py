"""Words of a shell, as shells read them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from klops.commands.words import expands, word

SHELLS = ["sh", "dash", "bash", "busybox"]


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    """A POSIX shell."""
    name = str(request.param)
    if shutil.which(name) is None:
        pytest.skip(f"no {name} here")
    return ["busybox", "sh"] if name == "busybox" else [name]


def read_by(shell: list[str], *words: str, cwd: Path | None = None) -> list[str]:
    """The words as a shell takes them."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/h o", "V": "*$(id)`id`;\n'\"\\"}
    line = f"printf '%s\\0' {' '.join(words)}"
    done = subprocess.run([*shell, "-c", line], capture_output=True, env=environment, check=True, cwd=cwd)
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("", ""),
        ("a b", "a b"),
        ("~", "/h o"),
        ("~/", "/h o/"),
        ("~/a b", "/h o/a b"),
        ("~root", "/root"),
        ("~root/x", "/root/x"),
        ("~nobody_of_that_name/x", "~nobody_of_that_name/x"),
        ("~a b", "~a b"),
        ("a~", "a~"),
        ("$HOME/x", "/h o/x"),
        ("x${HOME}y", "x/h oy"),
        ("$V", "*$(id)`id`;\n'\"\\"),
        ("$NOPE", "$NOPE"),
        ("${NOPE}", "${NOPE}"),
        ("$HOMEé", "$HOMEé"),
        ("${HOME:-x}", "${HOME:-x}"),
        ("$1 $$ $? $(id) `id` $", "$1 $$ $? $(id) `id` $"),
        ("$PPID $IFS $OPTIND", "$PPID $IFS $OPTIND"),
        ("'\"\\\n;&|<>*?[a]{a,b}!#", "'\"\\\n;&|<>*?[a]{a,b}!#"),
        ("-x=~/y:~", "-x=~/y:~"),
    ],
)
def test_a_word_is_what_python_on_the_host_would_make_of_it(shell: list[str], text: str, read: str) -> None:
    if shell[0] == "busybox" and text.startswith("~nobody"):
        pytest.skip("busybox loses what follows the name of a user that it doesn't know")
    assert read_by(shell, word(text)) == [read]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.o", ["a b.o", "c.o"]),
        ("[a-b]*.o", ["a b.o"]),
        ("[!a]*.o", ["c.o"]),
        ("a b.?", ["a b.o"]),
        ("{c,d}.o", ["{c,d}.o"]),
        ("$(id)*", ["$(id)*"]),
        ("#x;*", ["#x;y"]),
        ("new\nline*", ["new\nline"]),
        ("\\c.o", ["\\c.o"]),
    ],
)
def test_patterns(shell: list[str], pattern: str, found: list[str], tmp_path: Path) -> None:
    for name in ("a b.o", "c.o", "#x;y", "new\nline"):
        (tmp_path / name).touch()
    assert read_by(shell, word(pattern, globs=True), cwd=tmp_path) == found


def test_what_there_is_to_expand() -> None:
    assert [expands(text) for text in ("a b*", "$1", "a~", "$PPID")] == [False] * 4
    assert [expands(text) for text in ("~", "~/a", "$A", "x${A}")] == [True] * 4
