"""The least a round trip costs: a process that sends what klops sends over bare paramiko."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from klops.cli.main import run
from klops.remote import script
from klops.sim.layout import Ssh
from klops.sim.sshd import Sshd
from tests.bench.timing import Contender

#: One connection and one exec a host, hosts side by side.
_BARE = """
import socket, sys, threading, paramiko
hosts, port, user, key, known, line, body = sys.argv[1:]
script = open(body, "rb").read()
answers = []
def ask(host):
    client = paramiko.SSHClient()
    client.load_host_keys(known)
    client.connect(host, int(port), user, key_filename=key, allow_agent=False, look_for_keys=False)
    transport = client.get_transport()
    transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    channel = transport.open_session()
    channel.exec_command(line)
    channel.sendall(script)
    channel.shutdown_write()
    out = channel.makefile("rb").read()
    answers.append(channel.recv_exit_status() == 0 and b"@@" in out)
    client.close()
threads = [threading.Thread(target=ask, args=(host,)) for host in hosts.split(",")]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert answers == [True] * len(threads), answers
"""


def probe(
    argv: Sequence[str], addresses: Sequence[str], sshd: Sshd | Ssh, folder: Path, *, runs: int
) -> Contender:
    """The probe for what the klops command ``argv`` (about one host) sends, to each of ``addresses``."""
    body = folder / "batch.sh"
    body.write_bytes(_recorded_batch(argv))
    args = [",".join(addresses), str(sshd.port), sshd.user, str(sshd.key_file), str(sshd.known_hosts)]
    label = f"bare paramiko probe ({body.stat().st_size} bytes of script)"
    command = [sys.executable, "-c", _BARE, *args, script.login_line(script.EVAL_ALL), str(body)]
    return Contender(label, command, runs)


def _recorded_batch(argv: Sequence[str]) -> bytes:
    """The script of the one batch that a klops command sends."""
    sent: list[bytes] = []
    real = script.batch_script

    def recording(lanes: list[list[str]], marker: str) -> bytes:
        sent.append(real(lanes, marker))
        return sent[-1]

    script.batch_script = recording  # type: ignore[assignment]
    try:
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            run(list(argv))
    finally:
        script.batch_script = real
    (only,) = sent
    return only
