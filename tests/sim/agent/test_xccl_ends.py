"""How a diagnosis ends that is told to, whatever it is at; and what the container has in store for it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.sim.agent.cards import Cards
from tests.sim.agent.diagnoses import Diagnoses
from tests.sim.agent.site import Site, alive
from tests.waiting import until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="making device nodes needs root")

#: Exit status of a verb whose asker is gone.
NOBODY_WAITS = 4


@pytest.fixture
def xccl(site: Site) -> Diagnoses:
    """Diagnoses on a site with eight cards."""
    return Diagnoses(site, Cards(site))


def program(path: Path, *lines: str) -> str:
    """A shell script; its path."""
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return str(path)


@contextmanager
def waits(xccl: Diagnoses, what: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A diagnosis that waits for a script, for xpu-smi, or for who has a card open, at this moment."""
    mark = folder / "mark"
    said = f"echo $$ >{mark}.new && mv {mark}.new {mark}"
    changes: dict[str, Any] = {}
    if what == "script":
        changes["env_script"] = program(folder / "env.sh", said, "sleep 300")
    elif what == "memory":
        changes["smi"] = program(folder / "hanging-smi", said, "exec sleep 300")
    request = json.dumps(xccl.request(0, 1, **changes)).encode() + b"\n"
    held = os.open(xccl.site.devices / f"xpu{xccl.cards.identity(1)['minor']}", os.O_RDWR | os.O_NOCTTY)
    holder = subprocess.Popen(["sleep", "300"], stdin=held if what == "cards" else None)
    os.close(held)
    command = xccl.site.command("xccl", "--while-stdin")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=xccl.site.env) as verb:
        assert verb.stdin is not None
        try:
            verb.stdin.write(request)
            verb.stdin.flush()
            # it looks who has the cards as soon as its folder for the ranks is there
            found = xccl.run / "xccl" if what == "cards" else mark
            until(lambda: found.exists() or None, what=f"it waits for {what}")
            yield verb
        finally:
            holder.kill()
            holder.wait()
            verb.kill()


@pytest.mark.parametrize("what", ["cards", "script", "memory"])
def test_a_signal_ends_it_whatever_it_waits_for(xccl: Diagnoses, tmp_path: Path, what: str) -> None:
    with waits(xccl, what, tmp_path) as verb:
        verb.send_signal(signal.SIGTERM)
        assert verb.stdout is not None
        # what it waits for takes from 3 to 20 s, and would be another error then
        error = json.loads(verb.stdout.read().splitlines()[-1])["error"]
        assert error["code"] == "interrupted"
        assert verb.wait() == 1
    xccl.nothing_left()
    if what != "cards":
        assert not alive(int((tmp_path / "mark").read_text()))


@pytest.mark.parametrize("what", ["cards", "script", "memory"])
def test_the_end_of_standard_input_ends_it_whatever_it_waits_for(
    xccl: Diagnoses, tmp_path: Path, what: str
) -> None:
    with waits(xccl, what, tmp_path) as verb:
        assert verb.stdin is not None
        verb.stdin.close()
        verb.stdin = None
        assert verb.wait() == NOBODY_WAITS
    xccl.nothing_left()


def test_what_an_env_script_started_ends_with_the_diagnosis(xccl: Diagnoses, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = program(
        tmp_path / "env.sh",
        f"sleep 300 & echo $! >{pids}",
        f"(setsid sleep 300 & echo $! >>{pids})",
        "BYTES=$(printf '\\377\\376')",
    )
    assert xccl.ask(xccl.request(0, 1, env_script=script))["diagnosis"]["verdict"]["scope"] == "none"
    begun = [int(line) for line in pids.read_text().split()]
    assert len(begun) == 2
    assert not [pid for pid in begun if alive(pid)]
    assert {line["pid"] for line in xccl.site.audit("signal")} == set(begun)


def test_an_env_script_that_does_not_end_has_no_more_time_than_all_of_it(
    xccl: Diagnoses, tmp_path: Path
) -> None:
    script = program(tmp_path / "env.sh", "sleep 300")
    error = xccl.refused(xccl.request(0, 1, env_script=script, budget=2.0, start_timeout=8.0))
    assert error["code"] == "env-script"
    told = re.search(r" did not end within ([0-9.]+) s$", error["message"])
    assert told is not None
    assert float(told[1]) < 2
    xccl.nothing_left()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import os\nos._exit(0)\n", "its rank ended by itself with status 0"),
        ("import os\nos.write(1, b'word ' * 1_000_000 + b'\\nlast')\nos._exit(1)\n", "; log: "),
        ("import sys\nsys.exit(0)\n", "SystemExit: 0"),
        ("import os\nos.close(3)\nimport time\ntime.sleep(300)\n", "no answer within 2 s"),
    ],
)
def test_a_torch_of_another_kind_is_an_error_of_all_cards_alike(
    xccl: Diagnoses, source: str, said: str
) -> None:
    xccl.torch(source)
    result = xccl.ask(xccl.request(0, 1, start_timeout=2.0))
    verdict = result["diagnosis"]["verdict"]
    assert (verdict["scope"], said in verdict["error"]) == ("stack", True), verdict["error"]
    assert all(len(one["error"]) < 1000 for one in result["diagnosis"]["outcomes"])


@pytest.mark.parametrize("cards", [(3,), (3, 5)])
def test_few_cards(xccl: Diagnoses, cards: tuple[int, ...]) -> None:
    result = xccl.ask(xccl.request(*cards))
    verdict = result["diagnosis"]["verdict"]
    assert verdict["scope"] == "none"
    assert [card for card, one in verdict["cards"].items() if one["verdict"] == "pass"] == list(
        map(str, cards)
    )
    assert result["rank_processes"] == len(cards)


@pytest.mark.long
def test_that_ranks_come_one_after_another_is_no_time_of_the_collective(
    xccl: Diagnoses, tmp_path: Path
) -> None:
    # each fills more slowly than the one before it; Python imports this file at its start
    (tmp_path / "python" / "sitecustomize.py").write_text(
        "import os, time\n"
        "place = int(os.environ.get('KLOPS_RANK_PLACE', 0))\n"
        "if place:\n"
        "    import torch\n"
        "    from torch._tensor import Tensor\n"
        "    quick = Tensor.__mul__\n"
        "    def slow(self, other):\n"
        "        time.sleep(0.1 * place)\n"
        "        return quick(self, other)\n"
        "    Tensor.__mul__ = slow\n"
    )
    result = xccl.ask(xccl.request(0, 1, 2))
    groups = [one for one in result["diagnosis"]["outcomes"] if len(one["cards"]) > 1]
    assert len(groups) == 4
    # all of it is 0.02 s long with a torch as this one, and the last rank came 0.1 or 0.2 s after the first
    assert max(sample["us"] for one in groups for sample in one["samples"]) < 80_000
