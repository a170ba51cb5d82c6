"""The same converged ten tasks by klops, ansible-core and pyinfra: on one host, on 64 addresses of one sshd.

The tools are run as their users run them: klops and pyinfra as they come, ansible-core with pipelining and
without fact gathering; klops and ansible-core with as many forks as hosts. Every run is checked: all tasks
are ok on every host, none changed anything. Their interpreter is $PEERS (``make bench`` makes it).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from klops.sim.sshd import Sshd, start_sshd
from tests.bench.probe import probe
from tests.bench.timing import Contender, in_turn, show
from tests.host.support import klops

DATA = Path(__file__).parent / "data"
#: timed runs by number of hosts
RUNS = {1: 7, 64: 5}
#: ansible-core takes minutes for 64 hosts
ANSIBLE_RUNS = {1: 3, 64: 1}


@dataclass(frozen=True)
class Fleet:
    """Hosts by name, each an address of the sshd with a folder of its own; ``inventory`` is for klops and
    ansible-core alike."""

    folder: Path
    sshd: Sshd
    addresses: dict[str, str]

    @property
    def playbook(self) -> Path:
        """The ten tasks."""
        return self.folder / "data" / "ten.yml"

    @property
    def inventory(self) -> Path:
        """Where the hosts are written down."""
        return self.folder / "hosts.yml"

    @property
    def klops(self) -> list[str]:
        """The arguments of klops."""
        return ["play", str(self.playbook), "-i", str(self.inventory), "--forks", str(len(self.addresses))]

    def scratch(self, name: str) -> str:
        """A host's folder."""
        return str(self.folder / "hosts" / name)


def fleet() -> None:
    """Print the tables."""
    for hosts in RUNS:
        with _made(hosts) as made:
            _compare(made)


@contextmanager
def _made(hosts: int) -> Iterator[Fleet]:
    folder = Path(tempfile.mkdtemp(prefix="klops-bench-"))
    # one wildcard: sshd takes at most 16 addresses by name
    sshd = start_sshd(folder / "sshd", addresses=["0.0.0.0"], extra_config="MaxStartups 200:30:400")
    try:
        made = Fleet(folder, sshd, {f"h{number:02}": f"127.0.1.{number}" for number in range(1, hosts + 1)})
        key = sshd.known_hosts.read_text().split(None, 1)[1]
        sshd.known_hosts.write_text("".join(f"[{a}]:{sshd.port} {key}" for a in made.addresses.values()))
        shutil.copytree(DATA, folder / "data")
        made.inventory.write_text(json.dumps(_inventory(made)))
        yield made
    finally:
        sshd.close()
        shutil.rmtree(folder, ignore_errors=True)


def _compare(made: Fleet) -> None:
    hosts = len(made.addresses)
    done = klops(*made.klops)
    if done.rc:
        raise SystemExit(done.stdout + done.stderr)
    contenders = [_klops(made)]
    peers = os.environ.get("PEERS", "")
    if peers:
        contenders += [_pyinfra(made, peers), _ansible(made, peers)]
    else:
        print("PEERS names no interpreter with pyinfra and ansible-core: their rows are left out")
    argv = [*made.klops, "--limit", next(iter(made.addresses))]
    contenders.append(probe(argv, list(made.addresses.values()), made.sshd, made.folder, runs=RUNS[hosts]))
    title = f"Converged play of ten tasks over ssh, {hosts} host{'s' if hosts > 1 else ''}"
    show(title, in_turn(contenders))
    commands = klops(*made.klops, "-o", "json").json["remote_commands"].values()
    print(f"  klops: at most {max(commands)} remote commands a host")


def _inventory(made: Fleet) -> dict[str, object]:
    args = f"-F /dev/null -o UserKnownHostsFile={made.sshd.known_hosts} -o GlobalKnownHostsFile=/dev/null"
    variables = {
        "ansible_port": made.sshd.port,
        "ansible_user": made.sshd.user,
        "ansible_ssh_private_key_file": str(made.sshd.key_file),
        "ansible_ssh_common_args": f"{args} -o IdentitiesOnly=yes",
        "ansible_python_interpreter": next(filter(os.path.exists, ("/usr/bin/python3", sys.executable))),
    }
    hosts = {
        # locks are kept apart: these are hosts of one machine
        name: {
            "ansible_host": address,
            "scratch": made.scratch(name),
            "klops": {"root": str(made.folder / "klops" / name)},
        }
        for name, address in made.addresses.items()
    }
    return {"all": {"hosts": hosts, "vars": variables}}


def _klops(made: Fleet) -> Contender:
    check = _each_host(made, r"{name} +10 +0 +0 +0 +0 ")
    return Contender(
        "klops play", [sys.executable, "-m", "klops", *made.klops], RUNS[len(made.addresses)], check
    )


def _ansible(made: Fleet, peers: str) -> Contender:
    argv = [peers, "-m", "ansible", "playbook", str(made.playbook), "-i", str(made.inventory)]
    env = {
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_FORKS": str(len(made.addresses)),
        "ANSIBLE_LOCAL_TEMP": str(made.folder / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
    }
    check = _each_host(made, r"{name} +: ok=10 +changed=0 +unreachable=0 +failed=0 ")
    return Contender("ansible-core, pipelining", argv, ANSIBLE_RUNS[len(made.addresses)], check, env)


def _pyinfra(made: Fleet, peers: str) -> Contender:
    config = made.folder / "ssh_config"
    config.write_text(f"Host *\n  UserKnownHostsFile {made.sshd.known_hosts}\n")
    common = {
        "ssh_port": made.sshd.port,
        "ssh_user": made.sshd.user,
        "ssh_key": str(made.sshd.key_file),
        "ssh_config_file": str(config),
        "ssh_known_hosts_file": str(made.sshd.known_hosts),
    }
    hosts = [
        (address, {**common, "scratch": made.scratch(name), "called": name})
        for name, address in made.addresses.items()
    ]
    cwd = made.folder / "data"
    # no .py in the project: it only means something to pyinfra
    shutil.copyfile(cwd / "ten.pyinfra", cwd / "ten.py")
    (cwd / "inventory.py").write_text(f"fleet = {hosts!r}\n")
    argv = [peers, "-m", "pyinfra", "-y", "inventory.py", "ten.py"]
    env = {"NO_COLOR": "1", "HOME": str(made.folder)}
    return Contender("pyinfra", argv, RUNS[len(made.addresses)], _nothing_by_pyinfra, env, cwd)


def _each_host(made: Fleet, pattern: str) -> Callable[[str], str]:
    """A check that every host has its line in the recap."""

    def check(printed: str) -> str:
        for name in made.addresses:
            if not re.search(pattern.format(name=name), printed):
                return f"no line like {pattern} for {name}"
        return ""

    return check


def _nothing_by_pyinfra(printed: str) -> str:
    return "" if re.search(r"Grand total +([0-9]+) +- +- +\1 ", printed) else "it changed something"
