"""What can bring a source tree to a host over ssh: klops, and what people use today, as they use it.

Each is one command that is the same for a first sync, one without a change, and one of a change.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from klops.sim.sshd import Sshd
from tests.bench.sources import FILES, PART
from tests.bench.timing import Contender

ADDRESS = "127.0.0.1"
KLOPS = "klops sync"
RSYNC = "rsync -az"
PIPED_TAR = "git archive | gzip | ssh tar"
ALONE = "klops' packages alone, login and hashing"

#: Puts every file whose size or time differs from what a listing of its folder says, over one connection.
_SFTP = """
import os, socket, sys, paramiko
host, port, user, key, known, source, target = sys.argv[1:]
client = paramiko.SSHClient()
client.load_host_keys(known)
client.connect(host, int(port), user, key_filename=key, allow_agent=False, look_for_keys=False)
client.get_transport().sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
sftp = client.open_sftp()
for home, folders, files in os.walk(source):
    folders[:] = sorted(set(folders) - {".git"})
    there = os.path.normpath(os.path.join(target, os.path.relpath(home, source)))
    try:
        known = {each.filename: each for each in sftp.listdir_attr(there)}
    except FileNotFoundError:
        sftp.mkdir(there)
        known = {}
    for name in files:
        path, stat = os.path.join(home, name), os.stat(os.path.join(home, name))
        far = known.get(name)
        if far is None or (far.st_size, far.st_mtime) != (stat.st_size, int(stat.st_mtime)):
            sftp.put(path, there + "/" + name)
            sftp.utime(there + "/" + name, (stat.st_atime, stat.st_mtime))
client.close()
"""

#: The least that a program of these packages takes: they are loaded beside the login, as klops does it, and
#: one command on the host hashes the tree. No inventory, no playbook, no lock, nothing is sent.
_ALONE = """
import shlex, sys, threading, typer
host, port, user, key, known, tree = sys.argv[1:]
hashing = (
    "import hashlib, os, sys; print(len([hashlib.sha256(open(os.path.join(home, name), 'rb').read()).digest()"
    " for home, _, names in os.walk(os.path.realpath(sys.argv[1])) for name in names]))"
)
answers = []
def ask():
    import fabric
    how = {"key_filename": key, "allow_agent": False, "look_for_keys": False}
    connection = fabric.Connection(
        host, user=user, port=int(port), config=fabric.Config(lazy=True), connect_kwargs=how
    )
    connection.client.load_host_keys(known)
    connection.open()
    channel = connection.transport.open_session()
    channel.exec_command(shlex.join([sys.executable, "-I", "-S", "-c", hashing, tree]))
    answers.append(int(channel.makefile("rb").read()))
    connection.close()
asking = threading.Thread(target=ask)
asking.start()
import pydantic, ruamel.yaml, jinja2
asking.join()
print(*answers)
"""


@dataclass(frozen=True)
class Ground:
    """Where it happens: the repository's work tree; the host by its name in ``inventory``, its sshd, klops'
    root and the others' folder there; a folder for what is ours here."""

    repo: Path
    host: str
    inventory: Path
    sshd: Sshd
    root: Path
    target: Path
    scratch: Path

    @property
    def ssh_options(self) -> list[str]:
        """Of OpenSSH's client: nothing of this user's, the key and the host key of the rehearsal."""
        known = f"UserKnownHostsFile={self.sshd.known_hosts}"
        options = ["-F", "/dev/null", "-i", str(self.sshd.key_file)]
        return [*options, "-o", known, "-o", "GlobalKnownHostsFile=/dev/null", "-o", "IdentitiesOnly=yes"]

    @property
    def login(self) -> str:
        """user@address."""
        return f"{self.sshd.user}@{ADDRESS}"


@dataclass(frozen=True)
class Syncer:
    """A contender, the folder on the host where its files have to be, and what takes away all it has made.

    ``part``: the folder of the repository it is given, "" for all. ``missing``: what isn't here for it.
    """

    contender: Contender
    tree: Path
    clear: Callable[[], None]
    part: str = ""
    missing: str = ""


def every(ground: Ground, runs: int, peers: str) -> list[Syncer]:
    """All of them; ``peers`` is the Python that has ansible-core and pyinfra, "" when there is none."""
    gzip, fast = _piped_tar(ground, PIPED_TAR, "gzip", runs), f"{PIPED_TAR}, gzip -1"
    return [
        _klops(ground, runs),
        _alone(ground, runs),
        _rsync(ground, RSYNC, "-az", runs),
        _rsync(ground, f"{RSYNC} --checksum", "-azc", runs),
        gzip,
        _piped_tar(ground, fast, "gzip -1", runs),
        _sftp(ground, runs),
        _pyinfra(ground, peers),
        _ansible(ground, peers),
    ]


def _klops(ground: Ground, runs: int) -> Syncer:
    argv = ["sync", ground.host, "-i", str(ground.inventory), "-o", "json"]
    cache = ground.scratch / "cache"

    def clear() -> None:
        for made in (cache, ground.root / "releases", ground.root / "generations"):
            shutil.rmtree(made, ignore_errors=True)

    env = {"XDG_CACHE_HOME": str(cache)}
    contender = Contender(KLOPS, [sys.executable, "-m", "klops", *argv], runs, env=env)
    return Syncer(contender, ground.root / "releases" / "current", clear)


def _alone(ground: Ground, runs: int) -> Syncer:
    """Over the tree that klops has brought; the files are as many as the repository's."""
    sshd, tree = ground.sshd, ground.root / "releases" / "current"
    who = [ADDRESS, str(sshd.port), sshd.user, str(sshd.key_file), str(sshd.known_hosts)]
    argv = [sys.executable, "-c", _ALONE, *who, str(tree)]

    def check(printed: str) -> str:
        return "" if printed.split() == [str(FILES)] else f"not {FILES} files: {printed}"

    return Syncer(Contender(ALONE, argv, runs, check), tree, lambda: None)


def _rsync(ground: Ground, label: str, flags: str, runs: int) -> Syncer:
    ssh = shlex.join(["ssh", *ground.ssh_options, "-p", str(ground.sshd.port)])
    tree = ground.target / "rsync"
    argv = ["rsync", flags, "--delete", "--exclude=/.git", "-e", ssh, f"{ground.repo}/"]
    contender = Contender(label, [*argv, f"{ground.login}:{tree}/"], runs)
    return _syncer(contender, tree, missing="" if shutil.which("rsync") else "rsync")


def _piped_tar(ground: Ground, label: str, gzip: str, runs: int) -> Syncer:
    tree = ground.target / "tar"
    ssh = ["ssh", *ground.ssh_options, "-p", str(ground.sshd.port), ground.login]
    far = f"mkdir -p {tree} && tar -xzf - -C {tree}"
    line = f"git -C {ground.repo} archive HEAD | {gzip} | {shlex.join([*ssh, far])}"
    lacking = [program for program in ("gzip", "tar", "ssh") if not shutil.which(program)]
    return _syncer(Contender(label, ["sh", "-c", line], runs), tree, missing=", ".join(lacking))


def _sftp(ground: Ground, runs: int) -> Syncer:
    tree, sshd = ground.target / "sftp", ground.sshd
    who = [ADDRESS, str(sshd.port), sshd.user, str(sshd.key_file), str(sshd.known_hosts)]
    argv = [sys.executable, "-c", _SFTP, *who, str(ground.repo), str(tree)]
    return _syncer(Contender("SFTP, one put a file (paramiko)", argv, runs), tree)


def _ansible(ground: Ground, peers: str) -> Syncer:
    tree, playbook = ground.target / "ansible", ground.scratch / "copy.yml"
    copy = {"src": f"{ground.repo / PART}/", "dest": f"{tree}/", "mode": "preserve"}
    play = {"hosts": "all", "gather_facts": False, "tasks": [{"ansible.builtin.copy": copy}]}
    playbook.write_text(json.dumps([play]))
    inventory = ground.scratch / "ansible-hosts.yml"
    variables = {
        "ansible_host": ADDRESS,
        "ansible_port": ground.sshd.port,
        "ansible_user": ground.sshd.user,
        "ansible_ssh_common_args": shlex.join(ground.ssh_options),
        "ansible_python_interpreter": next(filter(os.path.exists, ("/usr/bin/python3", sys.executable))),
    }
    inventory.write_text(json.dumps({"all": {"hosts": {ground.host: variables}}}))
    argv = [peers, "-m", "ansible", "playbook", str(playbook), "-i", str(inventory)]
    env = {
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_LOCAL_TEMP": str(ground.scratch / "ansible"),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(ground.scratch / "cp"),
        "ANSIBLE_NOCOLOR": "1",
    }
    contender = Contender("Ansible copy, pipelining", argv, 1, env=env)
    return _syncer(contender, tree, part=PART, missing=_peer(peers))


def _pyinfra(ground: Ground, peers: str) -> Syncer:
    tree = ground.target / "pyinfra"
    config = ground.scratch / "ssh_config"
    config.write_text(f"Host *\n  UserKnownHostsFile {ground.sshd.known_hosts}\n")
    variables = {
        "ssh_port": ground.sshd.port,
        "ssh_user": ground.sshd.user,
        "ssh_key": str(ground.sshd.key_file),
        "ssh_config_file": str(config),
        "ssh_known_hosts_file": str(ground.sshd.known_hosts),
    }
    hosts = [(ADDRESS, variables)]
    (ground.scratch / "inventory.py").write_text(f"fleet = {hosts!r}\n")
    sync = f"files.sync(src={str(ground.repo / PART)!r}, dest={str(tree)!r}, add_deploy_dir=False)\n"
    (ground.scratch / "sync.py").write_text(f"from pyinfra.operations import files\n{sync}")
    argv = [peers, "-m", "pyinfra", "-y", "inventory.py", "sync.py"]
    env = {"NO_COLOR": "1", "HOME": str(ground.scratch)}
    contender = Contender("pyinfra files.sync", argv, 1, env=env, cwd=ground.scratch)
    return _syncer(contender, tree, part=PART, missing=_peer(peers))


def _syncer(contender: Contender, tree: Path, *, part: str = "", missing: str = "") -> Syncer:
    return Syncer(contender, tree, lambda: shutil.rmtree(tree, ignore_errors=True), part, missing)


def _peer(peers: str) -> str:
    return "" if peers else "an interpreter with ansible-core and pyinfra in $PEERS"
