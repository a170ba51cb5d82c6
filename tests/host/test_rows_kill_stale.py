"""Row B13: records of another life. Whoever has a recorded pid now is judged by start time and boot id too.

There is no pid file: what can be stale are the state and the lineage of a unit. Each kind is a unit of its
own under one real supervisor, which finds these files when it begins.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from klops.agent.processes import identity
from tests.rehearsals import missing
from tests.sim.agent import site as sites
from tests.sim.agent.site import Site
from tests.waiting import until

pytestmark = pytest.mark.host

NOBODY = 65534


@dataclass
class Life:
    """What an earlier life left on record of a unit, and who has its pid now."""

    site: Site
    state: dict[str, Any]
    lineage: list[dict[str, Any]]
    strangers: list[subprocess.Popen[bytes]]

    def stranger(self, *argv: str, user: int | None = None) -> identity.Identity:
        """Somebody who has nothing to do with klops."""
        made = subprocess.Popen(argv or ("sleep", "1000"), user=user, start_new_session=True)
        self.strangers.append(made)
        who = identity.of_pid(made.pid)
        assert who is not None
        return who

    def write(self, name: str, pid: int, start: int, *, boot: str = "", ends: str = "\n") -> None:
        """Put on record that this is root and only member of the unit."""
        line = {**self.lineage[0], "pid": pid, "start": start}
        line["boot"] = boot or line["boot"]
        state = {**self.state, "name": name, "root": [pid, start], "vital": []}
        self.file(f"{name}.lineage.jsonl", json.dumps(line) + ends)
        self.file(f"{name}.state.json", (json.dumps(state, indent=1) + "\n").replace("\n", ends))

    def file(self, name: str, text: str) -> None:
        (self.site.root / "run" / name).write_text(text, newline="")


def live(life: Life, name: str) -> None:
    """(a) a live process that is nobody's business; it began at another tick than the one on record."""
    who = life.stranger()
    life.write(name, who.pid, who.start - 1)


def dead(life: Life, name: str) -> None:
    """(b) nobody has the pid."""
    ended = life.stranger("true")
    life.strangers.pop().wait()
    life.write(name, ended.pid, ended.start)


def same_command(life: Life, name: str) -> None:
    """(c) a live process with the same command line, which began later."""
    port = str(life.state["running"]["port"])
    # the shell stays and has these words in its command line
    who = life.stranger("sh", "-c", "sleep 1000; :", "vllm", "serve", str(life.site.model), "--port", port)
    life.write(name, who.pid, who.start - 100)


def own_launcher(life: Life, name: str) -> None:
    """(d) the launcher that is at work just now."""
    (launcher,) = life.site.holds[1:]
    who = identity.of_pid(launcher.pid)
    assert who is not None
    life.write(name, who.pid, who.start - 1)


def own_launcher_exactly(life: Life, name: str) -> None:
    """(d) the same by its true identity, as no record of ours ever has it."""
    (launcher,) = life.site.holds[1:]
    who = identity.of_pid(launcher.pid)
    assert who is not None
    life.write(name, who.pid, who.start)


def empty(life: Life, name: str) -> None:
    """(e) nothing in the files."""
    for ending in ("lineage.jsonl", "state.json"):
        life.file(f"{name}.{ending}", "")


def other_user(life: Life, name: str) -> None:
    """(f) a process of another user."""
    who = life.stranger(user=NOBODY)
    life.write(name, who.pid, who.start - 1)


def carriage_returns(life: Life, name: str) -> None:
    """(g) files that went through an editor of another system."""
    who = life.stranger()
    life.write(name, who.pid, who.start - 1, ends="\r\n")


def other_boot(life: Life, name: str) -> None:
    """The very pid and tick, of another boot."""
    who = life.stranger()
    life.write(name, who.pid, who.start, boot="00000000-0000-4000-8000-000000000000")
    state = json.loads((life.site.root / "run" / f"{name}.state.json").read_text())
    life.file(f"{name}.state.json", json.dumps({**state, "home": "another:1:1:1"}))


def negative(life: Life, name: str) -> None:
    """A number that would be a whole group's."""
    life.write(name, -os.getpgid(life.stranger().pid), 1)


KINDS: list[Callable[[Life, str], None]] = [
    *(live, dead, same_command, own_launcher, empty, other_user, carriage_returns),
    *(own_launcher_exactly, other_boot, negative),
]
LONG = KINDS[-3:]


def named(kind: Callable[[Life, str], None]) -> str:
    """The unit of a kind."""
    return kind.__name__.replace("_", "-")


def end(site: Site) -> None:
    """End all of a site that is up, by its launcher."""
    site.holds[-1].terminate()
    assert site.holds[-1].wait(timeout=60) is not None


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    """A second life: its supervisor has found the records of all kinds."""
    reason = missing()  # a stranger of another user needs root
    if reason:
        pytest.skip(reason)
    for site in sites.site(tmp_path_factory.mktemp("stale")):
        run = site.root / "run"
        site.hold()
        site.supervisor()
        site.start(site.spec(tp=1))
        site.reaches("ready")
        lineage = [json.loads(line) for line in (run / "llm.lineage.jsonl").read_text().splitlines()]
        found = Life(site, json.loads((run / "llm.state.json").read_text()), lineage, [])
        site.verb("remove", "llm")
        end(site)
        try:
            # while another has the lock no supervisor of this launcher can begin
            with (run / "supervisor.lock").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                site.hold()
                for kind in KINDS:
                    kind(found, named(kind))
            site.supervisor()
            yield found
        finally:
            for one in found.strangers:
                os.killpg(one.pid, signal.SIGKILL)  # with what it has started
                one.wait()


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, id=named(kind), marks=[pytest.mark.long] * (kind in LONG)) for kind in KINDS],
)
def test_row_B13_stop_and_start_go_on_and_a_stranger_is_not_signalled(
    life: Life, kind: Callable[[Life, str], None]
) -> None:
    name, site = named(kind), life.site
    assert site.verb("stop", name)["state"] == "stopped"
    began = site.start(site.spec(name, tp=1))
    assert "error" not in began or not began["error"], began
    site.reaches("ready", name, timeout=60)
    assert site.verb("stop", name)["lineage"] == []
    assert all(one.poll() is None for one in life.strangers)
    assert site.holds[-1].poll() is None
    ours = {(line["pid"], line["start"]) for line in site.audit("start")}
    roots = {pid for pid, _ in ours}
    sent = [line for line in site.audit("signal") if line["unit"] == name]
    assert sent
    assert all(line["pid"] > 1 for line in sent)
    # the root and what descends from it; a stranger is neither
    strangers = {one.pid for one in life.strangers} | {site.holds[-1].pid}
    assert not strangers & {line["pid"] for line in sent}
    assert {line["pid"] for line in sent} & roots


def test_row_B13_a_lineage_with_carriage_returns_is_read_all_the_same(life: Life) -> None:
    """(g) of processes that live: they are found, and ended by a stop."""
    site, name = life.site, "carriage-returns"
    site.start(site.spec(name, tp=1))
    members = site.reaches("ready", name)["lineage"]
    for ending in ("lineage.jsonl", "state.json"):
        path = site.root / "run" / f"{name}.{ending}"
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    before = site.supervisor()
    os.kill(before, signal.SIGKILL)
    until(lambda: site.supervisor() != before, what="another supervisor")
    assert {m["cpid"] for m in site.unit(name)["lineage"]} == {m["cpid"] for m in members}
    assert site.verb("stop", name)["state"] == "stopped"
    assert not any(sites.alive(m["cpid"]) for m in members)
