"""An sshd of one's own on the loopback: own host key, own authorized key, own port; ended by its pid."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from klops.errors import TaskFailed

#: Seconds until sshd must listen.
START_TIMEOUT = 10.0
_PLACES = ("/usr/sbin/sshd", "/usr/local/sbin/sshd", "/sbin/sshd")


@dataclass
class Sshd:
    """A running sshd. ``key_file`` lets ``user`` in; ``known_hosts`` names its key for every address."""

    port: int
    key_file: Path
    known_hosts: Path
    user: str
    process: subprocess.Popen[bytes]
    log: Path

    def close(self) -> None:
        """End it, and wait until it has ended. Sessions that are open go on until they are left."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def find_sshd() -> str:
    """The path of sshd (it must be called by its full path); :class:`TaskFailed` when there is none."""
    found = shutil.which("sshd") or next((p for p in _PLACES if os.access(p, os.X_OK)), None)
    if not found:
        raise TaskFailed("sshd is not installed", hint="apt-get install openssh-server")
    return found


def make_key(path: Path) -> None:
    """An ed25519 key pair at ``path`` and ``path.pub``."""
    path.unlink(missing_ok=True)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "klops", "-f", str(path)], check=True
    )


def free_port(addresses: Sequence[str] = ("127.0.0.1",)) -> int:
    """A TCP port that nobody listens on at any of the addresses."""
    while True:
        with socket.socket() as sock:
            sock.bind((addresses[0], 0))
            port: int = sock.getsockname()[1]
        try:
            for address in addresses[1:]:
                with socket.socket() as sock:
                    sock.bind((address, port))
        except OSError:
            continue
        return port


def start_sshd(
    directory: Path | str,
    *,
    addresses: Sequence[str] = ("127.0.0.1",),
    extra_config: str = "",
    port: int | None = None,
    own_home: bool = True,
) -> Sshd:
    """Start an sshd whose files are all in ``directory``; returns when it listens.

    With ``own_home`` sessions have an empty home below it: start-up files of the user's shell are none of our
    business, and often cost more than the command.
    Lines of ``extra_config`` win over klops' own (sshd takes the first value of a key). Raises
    :class:`TaskFailed` with sshd's log when it doesn't come up.
    """
    sshd = find_sshd()
    folder = Path(directory).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    host_key, key_file = folder / "host_key", folder / "key"
    for key in (host_key, key_file):
        if not key.exists():
            make_key(key)
    authorized = folder / "authorized_keys"
    shutil.copyfile(f"{key_file}.pub", authorized)
    authorized.chmod(0o644)  # sshd reads it with the rights of whoever logs in
    if os.geteuid() == 0:
        # compiled into sshd as the folder it gives up its rights in; made by the service unit elsewhere
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    port = port or free_port(addresses)
    if own_home:
        (folder / "home").mkdir(exist_ok=True)
        extra_config += f'\nSetEnv "HOME={folder / "home"}"'
    config = folder / "sshd_config"
    lines = [
        extra_config,
        f"Port {port}",
        *(f"ListenAddress {a}" for a in addresses),
        f"HostKey {host_key}",
        f"AuthorizedKeysFile {authorized}",
        f"PidFile {folder / 'sshd.pid'}",
        "StrictModes no",
        "UsePAM no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin yes",
        "PrintMotd no",
        "LogLevel VERBOSE",
        "MaxStartups 100:30:200",
    ]
    config.write_text("\n".join(lines) + "\n")
    log = folder / "sshd.log"
    with log.open("ab") as sink:
        process = subprocess.Popen(
            [sshd, "-D", "-e", "-f", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    known = folder / "known_hosts"
    public = " ".join(Path(f"{host_key}.pub").read_text().split()[:2])
    known.write_text("".join(f"[{a}]:{port} {public}\n" for a in addresses))
    running = Sshd(port, key_file, known, getpass.getuser(), process, log)
    try:
        _wait(running, addresses[-1])
    except BaseException:
        running.close()
        raise
    return running


def _wait(sshd: Sshd, address: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline and sshd.process.poll() is None:
        if _greets(address, sshd.port):
            return
        time.sleep(0.02)
    raise TaskFailed(
        f"sshd does not listen on {address}:{sshd.port}: {sshd.log.read_text(errors='replace')[-2000:]}"
    )


def _greets(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), 1) as sock:
            return sock.recv(4) == b"SSH-"
    except OSError:
        return False
