"""Make and remove rehearsal hosts: folder, cards, engine, image, sshd, inventory."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from klops.commands import schedule
from klops.errors import CommandFailed, KlopsError, UsageError
from klops.sim import cards, engine, faults, image, rankside, vllms
from klops.sim.layout import Rehearsal, RehearsalHost, Ssh, inventory_text, load
from klops.sim.started import Started

TRANSPORTS = ("ssh", "local")
#: A unix socket's path has at most 107 bytes, and the deepest is ``hosts/demo12/root/run/NAME.sock``.
LONGEST_DIRECTORY = 60
FIRST_PORT = 18001
Say = Callable[[str], None]


def make(
    directory: Path,
    *,
    hosts: int = 1,
    transports: Sequence[str] = ("local",),
    fault_specs: Sequence[str] = (),
    vllm: str = "standin",
    diagnose: str | None = None,
    say: Say = lambda _: None,
) -> Rehearsal:
    """Make a rehearsal of ``hosts`` hosts in ``directory``; ``transports`` are dealt to them in turn.

    ``diagnose``: what its inventory says for ``klops.cards.diagnose``, None for klops' default.
    What can't be had is said before anything is made; what fails later is undone. Raises :class:`UsageError`.
    """
    directory = directory.absolute()
    content, flavour = faults.parse(fault_specs), vllms.choose(vllm)
    _check(directory, hosts, transports)
    directory.mkdir(parents=True, exist_ok=True)
    rehearsal = Rehearsal(directory, secrets.token_hex(3))
    rehearsal.save()
    try:
        _engine(rehearsal, say)
        say("importing the image")
        assert rehearsal.engine is not None  # noqa: S101 - _engine has set it
        rehearsal.image = image.make(rehearsal.engine, rehearsal.id)
        rankside.write(rehearsal.rank_side, real=flavour.kind == "real")
        _hosts(rehearsal, hosts, transports, content)
        if "ssh" in transports[:hosts]:
            say("starting sshd")
            _sshd(rehearsal)
        volumes = image.volumes(flavour.folders)
        text = inventory_text(rehearsal, flavour, volumes, diagnose=diagnose)
        rehearsal.inventory.write_text(text, encoding="utf-8")
        rehearsal.save()
    except BaseException:
        with contextlib.suppress(KlopsError):  # the first error is the one to tell
            stop(directory)
        raise
    return rehearsal


def running(directory: Path) -> Rehearsal | None:
    """The rehearsal that runs in ``directory``, None when there is none; one left by a crash is an error."""
    found = load(directory.absolute())
    if found and not (found.engine and found.engine.answers() and found.inventory.exists()):
        raise UsageError(
            f"the rehearsal in {directory} is not whole: cut short while it was made, or left by a crash",
            hint=f"klops demo --stop {directory}, then make it anew",
        )
    return found


def set_faults(rehearsal: Rehearsal, specs: Sequence[str]) -> None:
    """Replace the faults of a running rehearsal; none clears them. Nodes follow, the stand-ins read on."""
    _write_faults(rehearsal, faults.parse(specs))


def stop(directory: Path, say: Say = lambda _: None) -> bool:
    """Remove all that a rehearsal made; False when there was nothing. Safe to repeat, and after a crash."""
    directory = directory.absolute()
    rehearsal = load(directory)
    if rehearsal is None:
        return False
    _need_root()
    if rehearsal.engine:
        say("removing containers")
        _remove_containers(rehearsal)
    for host in rehearsal.hosts:
        _unschedule(str(host.root))
    if rehearsal.ssh and rehearsal.ssh.process:
        rehearsal.ssh.process.end()
    cards.release(directory)
    engine.detach_mounts(directory)
    shutil.rmtree(directory)
    return True


def _check(directory: Path, hosts: int, transports: Sequence[str]) -> None:
    if not 1 <= hosts <= cards.MOST:
        raise UsageError(f"{hosts} hosts can't be made", hint=f"from 1 to {cards.MOST} fit on one machine")
    _need_root()
    if load(directory) is not None:
        raise UsageError(f"{directory} already is a rehearsal", hint=f"klops demo --stop {directory}")
    if len(os.fsencode(directory)) > LONGEST_DIRECTORY:
        raise UsageError(
            f"{directory} is too long for the unix sockets in it",
            hint=f"at most {LONGEST_DIRECTORY} bytes",
        )
    if hosts > (left := cards.free()):
        raise cards.no_room(left)
    for transport in transports:
        if transport not in TRANSPORTS:
            raise UsageError(f"unknown transport {transport!r}", hint=" or ".join(TRANSPORTS))
    if "ssh" in transports[:hosts] and not shutil.which(
        "sshd", path=os.environ.get("PATH", "") + ":/usr/sbin"
    ):
        raise UsageError(
            "no sshd on this machine",
            hint="install openssh-server, or say --transport local",
        )


def _need_root() -> None:
    if sys.platform != "linux":
        raise UsageError("rehearsal hosts need Linux")
    if os.geteuid() != 0:
        raise UsageError(
            "rehearsal hosts need root: they have device nodes and, where none answers, a Docker engine",
            hint="run it as root (`sudo -E`), with docker.io and openssh-server installed",
        )


def _engine(rehearsal: Rehearsal, say: Say) -> None:
    rehearsal.engine = engine.find()
    if rehearsal.engine is None:
        say("starting a Docker engine")
        # on disk before it runs: what a crash leaves behind is found again by its folder
        rehearsal.engine = engine.Engine(engine.host_of(rehearsal.directory / "docker"), Started(0, 0))
        rehearsal.save()
        rehearsal.engine = engine.start(rehearsal.directory / "docker")
    rehearsal.save()


def _hosts(rehearsal: Rehearsal, count: int, transports: Sequence[str], content: Mapping[str, Any]) -> None:
    binaries = rehearsal.shared / "bin"
    binaries.mkdir(parents=True)
    _script(Path(__file__).with_name("vllm.py"), binaries / "vllm", "-S")
    shutil.copy(Path(__file__).with_name("rankfaults.py"), binaries)  # the stand-in's own, whatever the path
    for number in range(1, count + 1):
        name, numbers = f"demo{number}", cards.claim(rehearsal.directory)
        host = RehearsalHost(
            name=name,
            directory=rehearsal.directory / "hosts" / name,
            transport=transports[(number - 1) % len(transports)],
            address=f"127.0.0.{number}",
            container=f"klops-{name}-{rehearsal.id}",
            port=_free_port(numbers.slot),
            numbers=numbers,
        )
        rehearsal.hosts.append(host)
        host.root.mkdir(parents=True)
        host.binaries.mkdir()
        _script(Path(__file__).with_name("xpu_smi.py"), host.binaries / "xpu-smi", "-IS")
        vllms.write_standin_model(host.models / "stand-in")
        description = cards.describe(name, rehearsal.id, host.numbers, rehearsal.shared / "faults.json")
        cards.write_description(host.cards_file, description)
        host.key_file.touch(mode=0o600)
        host.key_file.write_text(f"""made-up-"key" with $pace & 'quotes' {name}""", encoding="utf-8")
    rehearsal.save()
    _write_faults(rehearsal, content)


def _write_faults(rehearsal: Rehearsal, content: Mapping[str, Any]) -> None:
    """faults.json lives in a folder that containers have mounted, so that a new file is seen in them too."""
    new = rehearsal.shared / "faults.json.new"
    new.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    new.rename(rehearsal.shared / "faults.json")
    link = rehearsal.directory / "faults.json"
    link.unlink(missing_ok=True)
    link.symlink_to("shared/faults.json")
    for host in rehearsal.hosts:
        cards.make_nodes(host.device_dir, host.numbers, content)


def _script(source: Path, target: Path, flags: str) -> None:
    """A stand-in as a program: its first line names this Python, without its site-packages."""
    python = Path(sys.executable).resolve()
    body = source.read_text(encoding="utf-8").partition("\n")[2]
    target.write_text(f"#!{python} {flags}\n{body}", encoding="utf-8")
    target.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)


def _unschedule(root: str) -> None:
    """Remove what ``klops cron install`` wrote for a host; hosts are root's, so no user's crontab has it."""
    for file in Path(schedule.FOLDER).glob("*"):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if schedule.mark(root) in file.read_text(encoding="utf-8").splitlines():
                file.unlink()


def _free_port(slot: int) -> int:
    """A port nobody listens on, and that no other rehearsal has: its services may be down right now."""
    for port in range(FIRST_PORT + slot, FIRST_PORT + 2000, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("0.0.0.0", port))  # noqa: S104 - where the service will listen
            return port
    raise UsageError(f"no free port among {FIRST_PORT + slot}, {FIRST_PORT + slot + 100}, ...")


def _sshd(rehearsal: Rehearsal) -> None:
    from klops.sim.sshd import start_sshd

    addresses = tuple(host.address for host in rehearsal.hosts if host.transport == "ssh")
    daemon = start_sshd(rehearsal.directory / "ssh", addresses=addresses)
    process = Started.of(daemon.process.pid)
    daemon.process.returncode = 0  # it outlives this run: handed over to pid and start time
    rehearsal.ssh = Ssh(daemon.port, daemon.user, daemon.key_file, daemon.known_hosts, process)
    rehearsal.save()


def _remove_containers(rehearsal: Rehearsal) -> None:
    """Containers and image, then the engine when it is ours. One that crashed is started for it once more."""
    found = rehearsal.engine
    assert found is not None  # noqa: S101 - the caller has looked
    home = rehearsal.directory / "docker"
    if found.process is not None and not found.answers():
        found.process.end()
        found = engine.start(home) if home.exists() else None
    if found is None or not (found.process or found.answers()):
        if found is not None:
            raise UsageError(
                "the Docker engine with the rehearsal's containers does not answer: nothing was removed",
                hint="start it, then repeat `klops demo --stop`",
            )
        return
    if rehearsal.image:
        left = found.docker("ps", "--all", "--quiet", "--no-trunc", "--filter", f"ancestor={rehearsal.image}")
        if left.split():
            found.docker("rm", "--force", "--volumes", *left.split())
        with contextlib.suppress(CommandFailed):  # removed by an earlier try
            found.docker("rmi", rehearsal.image)
    if found.process and not found.process.end():
        raise UsageError(f"the Docker engine of the rehearsal (pid {found.process.pid}) does not end")
