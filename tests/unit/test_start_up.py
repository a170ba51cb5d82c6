"""Commands, and verbs of the agent, must not pay for what they don't use."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

import klops
from klops.cli.main import COMMANDS, program, run

HEAVY = ("fabric", "paramiko", "jinja2", "pydantic", "structlog", "ruamel", "tenacity", "psutil")
PROGRAM = """
import sys
sys.argv = ["klops", *sys.argv[1:]]
from klops.cli.main import main
try:
    main()
except SystemExit as done:
    assert done.code in (0, None), done.code
import gc
print("THRESHOLD", gc.get_threshold()[0])
print("SEARCHED AT THE END", len(gc.get_objects()))
print("COMMANDS", *sorted(name for name in sys.modules if name.startswith("klops.cli.")))
print("LOADED", *sorted({name.split(".")[0] for name in sys.modules}))
"""
VERB = """
import sys
sys.path.insert(0, sys.argv[1])
__import__("klops.agent.releases." + sys.argv[2])
print(*sys.modules)
"""


@pytest.mark.parametrize("argv", [["--help"], ["up", "--help"], ["inventory", "--help"], ["demo", "--help"]])
def test_help_loads_no_heavy_module(argv: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.rpartition("LOADED")[2].split()
    assert "typer" in loaded
    assert not set(HEAVY) & set(loaded)


def test_a_command_does_not_load_the_others() -> None:
    argv = [sys.executable, "-c", PROGRAM, "sync", "--help"]
    printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    loaded = printed.rpartition("COMMANDS")[2].partition("LOADED")[0].split()
    assert "klops.cli.source" in loaded
    assert not {"klops.cli.lifecycle", "klops.cli.cards", "klops.cli.demo"} & set(loaded)


def test_every_command_is_there_by_itself_as_among_all() -> None:
    everything = program().commands
    assert list(everything) == list(COMMANDS)
    for name, command in everything.items():
        alone = program([name, "--help"]).commands
        assert list(alone) == [name]
        assert alone[name].help == command.help


def test_the_collector_waits_in_a_process_of_klops_own_only() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "--version"], capture_output=True, text=True, check=True
    )
    assert "THRESHOLD 100000" in done.stdout
    searched = int(done.stdout.partition("SEARCHED AT THE END ")[2].split()[0])
    assert searched < 1000, "what was loaded is not looked through once more when the process ends"
    before = gc.get_threshold()
    assert run(["--version"]) == 0
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


@pytest.mark.parametrize("verb", ["look", "send"])
def test_verbs_about_releases_load_neither_units_nor_packages(verb: str) -> None:
    root = str(Path(klops.__file__).parents[1])
    argv = [sys.executable, "-I", "-S", "-c", VERB, root, verb]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "klops.agent.releases.known" in loaded
    unwanted = {"dataclasses", "klops.agent.units.unit", "klops.agent.running", "tarfile", "subprocess"}
    assert not unwanted & loaded
