"""Where the runs take place: an sshd, a web server, inventories, folders."""

from __future__ import annotations

import contextlib
import http.server
import json
import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from klops.sim.sshd import start_sshd
from tests.oracle import hosts
from tests.oracle.case import Case
from tests.oracle.web import Answers

#: What Ansible is told by its environment, once for all runs.
ANSIBLE = {
    "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).parent / "callbacks"),
    "ANSIBLE_STDOUT_CALLBACK": "oracle_dump",
    "ANSIBLE_PIPELINING": "1",
    "ANSIBLE_NOCOLOR": "1",
    "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=10s",
    "ANSIBLE_RETRY_FILES_ENABLED": "0",
}


@dataclass(frozen=True)
class Lab:
    """Where the runs take place. ``env`` is what both tools' processes have in their environment."""

    folder: Path
    inventories: dict[str, Path]
    extra: dict[str, Any]
    env: dict[str, str]

    @property
    def state(self) -> Path:
        """What klops keeps of its own: the folders that ``klops.root`` of the hosts names."""
        return self.folder / "state"

    def root(self, tool: str, case: Case) -> Path:
        """The folder of the scratch folders; the same length for both tools."""
        return self.folder / tool[0] / case.name.replace(":", "_")

    def words(self, tool: str, case: Case, connection: str) -> list[str]:
        """The command line after the program's name (and ``play`` of klops)."""
        own = case.folder / "inventory"
        extra = {**self.extra, "oracle_root": str(self.root(tool, case))}
        return [
            *("-i", str(self.inventories[connection])),
            *(("-i", str(own)) if own.is_dir() else ()),
            *("-e", json.dumps(extra)),
            *case.args,
            str(case.folder / "play.yml"),
        ]


@contextlib.contextmanager
def open_lab() -> Iterator[Lab]:
    """Everything that runs need; gone at the end."""
    # short, for the unix sockets of ssh below it
    folder = Path(tempfile.mkdtemp(prefix="oracle-", dir="/tmp"))
    folder.chmod(0o755)  # other users look into it too
    home = folder / "home"
    home.mkdir()
    path = f"{hosts.STANDINS}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    env = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
    on_hosts = " ".join(f'"{name}={value}"' for name, value in env.items())
    addresses = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
    sshd = start_sshd(folder / "sshd", addresses=addresses, extra_config=f"SetEnv {on_hosts}", own_home=False)
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    try:
        lab = Lab(folder, {}, {"web_port": web.server_port}, env)
        for connection in ("local", "ssh"):
            lab.inventories[connection] = folder / connection / "hosts.yml"
            lab.inventories[connection].parent.mkdir()
            lab.inventories[connection].write_text(
                hosts.INVENTORY.format(
                    python=hosts.PYTHON,
                    connection=connection,
                    port=sshd.port,
                    user=sshd.user,
                    key=sshd.key_file,
                    known_hosts=sshd.known_hosts,
                    state=lab.state,
                )
            )
        yield lab
    finally:
        web.shutdown()
        web.server_close()
        sshd.close()
        shutil.rmtree(folder)
