"""Diagnoses on a site: a stand-in torch, cards with nodes, and the verb asked as klops asks it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from klops.agent.processes import procs
from klops.cards.xccl.results import Aim
from klops.sim import faults, rankside
from tests.sim.agent.cards import Cards
from tests.sim.agent.site import Site
from tests.waiting import until

#: Bytes a rank, few and small: these tests are not about time.
SIZES = [65536, 1 << 20]


class Diagnoses:
    """What the ranks of one site find, and how they are asked."""

    def __init__(self, site: Site, cards: Cards) -> None:
        folder = site.folder
        self.site = site
        self.cards = cards
        self.run = site.root / "run"
        self._faults = folder / "faults.json"
        self._python = folder / "python"
        rankside.write(self._python, real=False)
        site.env["PYTHONPATH"] = str(self._python)
        site.env["KLOPS_SIM_DEVICE_DIR"] = str(site.devices)
        site.env["KLOPS_SIM_CARDS"] = str(folder / "cards.json")
        site.env["KLOPS_SIM_FAULTS"] = str(self._faults)

    def break_(self, *specs: str) -> None:
        """Faults of the cards."""
        self._faults.write_text(json.dumps(faults.parse(list(specs))))

    def torch(self, source: str) -> None:
        """Another torch: a module of these lines."""
        folder = self._python.with_name("own")
        folder.mkdir()
        (folder / "torch.py").write_text(source)
        self.site.env["PYTHONPATH"] = str(folder)

    def open_all(self) -> None:
        """Ranks have the nodes of all cards open, as those of a runtime with one context for all of them."""
        source = (
            "import glob, os\nfor node in glob.glob(os.environ['KLOPS_SIM_DEVICE_DIR'] + '/xpu[0-9]*'):\n"
        )
        (self._python / "sitecustomize.py").write_text(source + "    os.open(node, os.O_RDWR)\n")

    def request(self, *indexes: int, **changes: Any) -> dict[str, Any]:
        """About some cards, all of which have nodes."""
        identities = [self.cards.identity(index) for index in indexes]
        nodes = sorted(int(path.name[3:]) for path in self.site.devices.glob("xpu[0-9]*"))
        aim = {"cards": indexes, "groups": (indexes,), **changes.pop("aim", {})}
        return {
            "schema": 1,
            "run": "a-test",
            "aim": Aim(**aim).as_json(),
            "cards": [{**one, "inside": nodes.index(one["minor"])} for one in identities],
            "visible_env": "XPU_VISIBLE_DEVICES",
            "device_dir": str(self.site.devices),
            "env": {},
            "env_script": None,
            "backend": "auto",
            "sizes": SIZES,
            "rounds": 3,
            "budget": 60.0,
            "start_timeout": 20.0,
            "timeout": 1.0,
            "scan": False,
            "smi": str(self.cards.smi),
            **changes,
        }

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The result. Nothing of it is left."""
        said = self.site.verb("xccl", given=request)
        assert "result" in said, said
        self.nothing_left()
        result: dict[str, Any] = said["result"]
        return result

    def refused(self, request: dict[str, Any]) -> dict[str, Any]:
        """The error."""
        error: dict[str, Any] = self.site.verb("xccl", given=request)["error"]
        return error

    @contextmanager
    def begun(self, request: dict[str, Any], *, ranks: int) -> Iterator[subprocess.Popen[bytes]]:
        """One that is at work, on standard input kept open, whose ranks are all up."""
        command = self.site.command("xccl", "--while-stdin")
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.site.env
        ) as verb:
            assert verb.stdin is not None
            try:
                verb.stdin.write(json.dumps(request).encode() + b"\n")
                verb.stdin.flush()
                until(lambda: len(self.holding()) == ranks or None, what="all ranks have their cards")
                yield verb
            finally:
                verb.kill()

    def ranks(self) -> dict[int, int]:
        """Pids of the ranks that live, by their place."""
        wanted = b"KLOPS_RANK_PLACE="
        found = {}
        for pid, one in procs.table().items():
            environ = procs.slurp(f"/proc/{pid}/environ").split(b"\0") if one.alive else []
            if b"PYTHONPATH=" + os.fsencode(self.site.env["PYTHONPATH"]) in environ:
                found.update({int(item[len(wanted) :]): pid for item in environ if item.startswith(wanted)})
        return found

    def holding(self) -> dict[int, int]:
        """The same, of those that have a card's node open."""
        return {place: pid for place, pid in self.ranks().items() if _holds_card(pid)}

    def nothing_left(self) -> None:
        """No rank, and no file but the lock."""
        assert self.ranks() == {}
        assert [path.name for path in self.run.iterdir() if "xccl" in path.name] == ["xccl.lock"]


def _holds_card(pid: int) -> bool:
    try:
        targets = [fd.readlink().name for fd in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False
    return any(name.startswith("xpu") and name != "xpuctrl" for name in targets)
