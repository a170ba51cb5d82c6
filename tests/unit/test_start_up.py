"""`--help` must not pay for what it doesn't use."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("fabric", "paramiko", "jinja2", "pydantic", "structlog", "ruamel", "tenacity", "psutil")
PROGRAM = """
import sys
sys.argv = ["klops", *sys.argv[1:]]
from klops.cli.main import main
try:
    main()
except SystemExit as done:
    assert done.code in (0, None), done.code
print("LOADED", *sorted({name.split(".")[0] for name in sys.modules}))
"""


@pytest.mark.parametrize("argv", [["--help"], ["up", "--help"], ["inventory", "--help"], ["demo", "--help"]])
def test_help_loads_no_heavy_module(argv: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.rpartition("LOADED")[2].split()
    assert "typer" in loaded
    assert not set(HEAVY) & set(loaded)
