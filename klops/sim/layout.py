"""Where things are in a rehearsal's folder, its state on disk, and the inventory made from it."""

from __future__ import annotations

import getpass
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from klops.errors import UsageError
from klops.sim.cards import Numbers
from klops.sim.engine import Engine
from klops.sim.started import Started
from klops.sim.vllms import MODELS, Vllm

SCHEMA = 1
STATE = "rehearsal.json"
SERVICE = "llm"
SERVED_NAME = "rehearsal-model"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class RehearsalHost:
    """One host: its folder, how it is reached, and what belongs to it alone."""

    name: str
    directory: Path
    transport: str
    address: str
    container: str
    port: int
    numbers: Numbers

    @property
    def root(self) -> Path:
        """``klops.root``."""
        return self.directory / "root"

    @property
    def device_dir(self) -> Path:
        """Where its card nodes are."""
        return self.directory / "dev"

    @property
    def binaries(self) -> Path:
        """Where its xpu-smi is."""
        return self.directory / "bin"

    @property
    def models(self) -> Path:
        """Models on the host, ``/models`` in its container."""
        return self.directory / "models"

    @property
    def key_file(self) -> Path:
        """The service's API key."""
        return self.directory / "api-key"

    @property
    def cards_file(self) -> Path:
        """What its xpu-smi knows."""
        return self.directory / "cards.json"

    @property
    def api_key(self) -> str:
        """The key itself; made up."""
        return self.key_file.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Ssh:
    """The sshd of the ssh hosts."""

    port: int
    user: str
    key_file: Path
    known_hosts: Path
    process: Started | None = None


@dataclass
class Rehearsal:
    """A rehearsal as made so far; :meth:`save` after each step, so that it can be removed after a crash."""

    directory: Path
    id: str
    hosts: list[RehearsalHost] = field(default_factory=list)
    engine: Engine | None = None
    image: str = ""
    ssh: Ssh | None = None

    @property
    def inventory(self) -> Path:
        """The inventory that names its hosts."""
        return self.directory / "inventory.yml"

    @property
    def shared(self) -> Path:
        """What all its containers have mounted: the stand-in vllm, what ranks import, and faults.json."""
        return self.directory / "shared"

    @property
    def rank_side(self) -> Path:
        """What is on PYTHONPATH in its containers."""
        return self.shared / "python"

    def save(self) -> None:
        """Write the state beside its place and rename it."""
        state = {"schema": SCHEMA, **{k: v for k, v in asdict(self).items() if k != "directory"}}
        path = self.directory / (STATE + ".new")
        path.write_text(json.dumps(state, indent=1, default=str) + "\n", encoding="utf-8")
        path.rename(self.directory / STATE)


def load(directory: Path) -> Rehearsal | None:
    """The rehearsal in ``directory``; None when there is no such folder or it is empty.

    Raises :class:`UsageError` when the folder is something else.
    """
    path = directory / STATE
    if not path.is_file():
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise UsageError(
                f"{directory} isn't a rehearsal: it has no {STATE}", hint="nothing in it was touched"
            )
        return None
    state = json.loads(path.read_text(encoding="utf-8"))
    if state.get("schema") != SCHEMA:
        raise UsageError(f"{path} was written by another version of klops (schema {state.get('schema')})")
    hosts = [
        RehearsalHost(**{**h, "directory": Path(h["directory"]), "numbers": Numbers(**h["numbers"])})
        for h in state["hosts"]
    ]
    engine, ssh = state["engine"], state["ssh"]
    return Rehearsal(
        directory,
        state["id"],
        hosts,
        Engine(engine["host"], _started(engine["process"])) if engine else None,
        state["image"],
        Ssh(
            ssh["port"],
            ssh["user"],
            Path(ssh["key_file"]),
            Path(ssh["known_hosts"]),
            _started(ssh["process"]),
        )
        if ssh
        else None,
    )


def _started(entry: dict[str, int] | None) -> Started | None:
    return Started(**entry) if entry else None


def inventory_text(
    rehearsal: Rehearsal, vllm: Vllm, volumes: Sequence[str], *, diagnose: str | None = None
) -> str:
    """inventory.yml: what the hosts share in ``all.vars``, the rest host by host.

    ``diagnose``: what becomes ``klops.cards.diagnose``, None for klops' default.
    """
    engine = rehearsal.engine or Engine()
    shared: dict[str, Any] = {
        "docker": {"host": engine.host} if engine.host else {},
        "cards": {"diagnose": diagnose} if diagnose else {},
        "container": {
            "image": rehearsal.image,
            "python": vllm.python,
            "shm": "1g",
            "stop_timeout": 60,
            "env": {
                "PATH": f"{rehearsal.shared}/bin:{PATH}",
                "PYTHONPATH": str(rehearsal.rank_side),
                "KLOPS_SIM_FAULTS": f"{rehearsal.shared}/faults.json",
                "KLOPS_SIM_CARDS": ":".join(str(host.cards_file) for host in rehearsal.hosts),
            },
        },
    }
    content: dict[str, Any] = {
        "all": {
            "vars": {"klops": {name: value for name, value in shared.items() if value}},
            "children": {
                "rehearsal": {"hosts": {h.name: _host(rehearsal, h, vllm, volumes) for h in rehearsal.hosts}}
            },
        }
    }
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.width = 4096  # paths stay on one line
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # declared as None only
    out = io.StringIO()
    out.write(
        "# Made by `klops demo`, removed by `klops demo --stop`. Every key and identity in it is made up.\n"
    )
    yaml.dump(content, out)
    return out.getvalue()


def _host(rehearsal: Rehearsal, host: RehearsalHost, vllm: Vllm, volumes: Sequence[str]) -> dict[str, Any]:
    connection: dict[str, Any] = {"ansible_connection": "local"}
    if host.transport == "ssh" and rehearsal.ssh:
        connection = {
            "ansible_host": host.address,
            "ansible_port": rehearsal.ssh.port,
            "ansible_user": rehearsal.ssh.user,
            "ansible_ssh_private_key_file": str(rehearsal.ssh.key_file),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={rehearsal.ssh.known_hosts}",
        }
    own = [host.binaries, host.cards_file]
    service: dict[str, Any] = {
        "model": vllm.model,
        "served_name": SERVED_NAME,
        "port": host.port,
        "api_key": {"file": str(host.key_file)},
        "tp": vllm.tp,
        "args": dict(vllm.args),
        "env": dict(vllm.env),
        "start_timeout": vllm.start_timeout,
    }
    if vllm.cards is not None:
        service["cards"] = list(vllm.cards)
    return {
        **connection,
        "klops": {
            "root": str(host.root),
            "cards": {"device_dir": str(host.device_dir), "smi": {"path": str(host.binaries / "xpu-smi")}},
            # the crontabs of this machine are its own: klops cron install is for those who want to see it
            "cleanup": {"scheduler": "none"},
            "container": {
                "name": host.container,
                "volumes": [
                    *volumes,
                    f"{vllm.models or host.models}:{MODELS}:ro",
                    f"{rehearsal.shared}:{rehearsal.shared}:ro",
                    *(f"{path}:{path}:ro" for path in own),
                ],
            },
            "services": {SERVICE: {name: value for name, value in service.items() if value != {}}},
        },
    }


def user() -> str:
    """Who runs this, as sshd knows them."""
    return getpass.getuser()
