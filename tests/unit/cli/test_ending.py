"""How the program ends, when its work is done."""

from __future__ import annotations

import subprocess
import sys

LATE = """
import atexit, os, signal, sys
atexit.register(os.kill, os.getpid(), signal.SIGINT)
from klops.cli.main import main
sys.argv = ["klops", "--version"]
main()
"""


def test_an_interrupt_that_comes_when_all_is_done_changes_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("klops ")
