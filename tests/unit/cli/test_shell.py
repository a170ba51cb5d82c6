"""``klops shell`` on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

from tests.unit.cli.conftest import CHECKOUT, LocalHost

#: Runs klops with standard input as the terminal of its session.
ON_A_TERMINAL = """
import fcntl, runpy, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
runpy.run_module("klops", run_name="__main__")
"""


def everything(terminal: int) -> bytes:
    """What is written to a terminal until nobody has it open any more."""
    said = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # EIO: the other side is closed
            return said
        if not piece:
            return said
        said += piece


def test_a_shell_takes_what_is_typed_and_ends_klops_with_its_status(host: LocalHost) -> None:
    terminal, far = pty.openpty()
    inventory = str(host.home / "hosts.yml")
    with subprocess.Popen(
        [sys.executable, "-c", ON_A_TERMINAL, "shell", "--host", "here", "-i", inventory],
        stdin=far,
        stdout=far,
        stderr=far,
        start_new_session=True,
        cwd=CHECKOUT,
        # no start-up file of the user's, and no escape sequences
        env={**os.environ, "HOME": str(host.home), "TERM": "dumb"},
    ) as process:
        os.close(far)
        try:
            # the terminal echoes what is typed, so what is typed must not be what is looked for
            os.write(terminal, b"echo o''k; exit 7\n")
            said = everything(terminal)
            rc = process.wait(20)
        finally:
            process.kill()
            os.close(terminal)
    assert rc == 7, said
    assert b"ok" in said


def test_without_a_terminal_there_is_no_shell(host: LocalHost) -> None:
    argv = [sys.executable, "-m", "klops", "shell", "--host", "here", "-i", str(host.home / "hosts.yml")]
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, cwd=CHECKOUT
    )
    assert done.returncode == 2
    assert "a shell needs a terminal" in done.stderr
