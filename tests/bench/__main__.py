"""``make bench``: what klops costs, printed. Nothing here asserts a time."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from klops.cli.main import run
from klops.remote import script
from klops.sim import rehearsal as sim
from klops.sim.layout import Rehearsal
from tests.bench.timing import in_turn, show
from tests.host.support import klops

RUNS = 10
#: Seconds over which the idle supervisor is watched.
IDLE = 20

BARE_TYPER = """
import typer
app = typer.Typer()
@app.command()
def hello(name: str, loud: bool = False) -> None:
    "Say hello."
app()
"""

#: One connection, one exec of the script that klops sends, everything read: the least a round trip costs.
BARE_PARAMIKO = """
import socket, sys, paramiko
host, port, user, key, known, line, body = sys.argv[1:]
client = paramiko.SSHClient()
client.load_host_keys(known)
client.connect(host, int(port), user, key_filename=key, allow_agent=False, look_for_keys=False)
transport = client.get_transport()
transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
channel = transport.open_session()
channel.exec_command(line)
channel.sendall(open(body, "rb").read())
channel.shutdown_write()
out = channel.makefile("rb").read()
assert channel.recv_exit_status() == 0 and b"@@" in out
client.close()
"""


def main() -> None:
    """All figures, one after another, on one rehearsal host over ssh."""
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}; medians, ratios to the last row")
    start_up()
    with rehearsal_host() as rehearsal:
        converged(rehearsal)
        agent(rehearsal)
        idle(rehearsal)


def start_up() -> None:
    """--help against the smallest typer app."""
    show(
        "Start-up",
        in_turn(
            [
                ("klops --help", [sys.executable, "-m", "klops", "--help"]),
                ("bare typer app --help", [sys.executable, "-c", BARE_TYPER, "--help"]),
            ],
            runs=RUNS,
        ),
    )


@contextmanager
def rehearsal_host() -> Iterator[Rehearsal]:
    """A rehearsal host that is up."""
    directory = Path(tempfile.mkdtemp(prefix="klops-", dir="/tmp"))
    try:
        rehearsal = sim.make(directory, transports=["ssh"])
        done = klops("up", "all", "-i", str(rehearsal.inventory))
        if done.rc:
            raise SystemExit(done.stdout + done.stderr)
        yield rehearsal
    finally:
        sim.stop(directory)


def recorded_batch(argv: list[str]) -> bytes:
    """The script of the one batch that a klops command sends."""
    sent: list[bytes] = []
    real = script.batch_script

    def recording(scripts: list[str], marker: str) -> bytes:
        sent.append(real(scripts, marker))
        return sent[-1]

    script.batch_script = recording  # type: ignore[assignment]
    try:
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            run(argv)
    finally:
        script.batch_script = real
    (only,) = sent
    return only


def converged(rehearsal: Rehearsal) -> None:
    """A second up against a bare process that sends the same script."""
    host, ssh = rehearsal.hosts[0], rehearsal.ssh
    assert ssh is not None
    up = ["up", host.name, "-i", str(rehearsal.inventory)]
    body = rehearsal.directory / "batch.sh"
    body.write_bytes(recorded_batch(up))
    probe = [sys.executable, "-c", BARE_PARAMIKO, host.address, str(ssh.port), ssh.user]
    probe += [str(ssh.key_file), str(ssh.known_hosts), script.login_line(script.EVAL_ALL), str(body)]
    show(
        f"Converged up, one host over ssh ({body.stat().st_size} bytes of script)",
        in_turn(
            [("klops up", [sys.executable, "-m", "klops", *up]), ("bare paramiko probe", probe)], runs=RUNS
        ),
    )


def agent(rehearsal: Rehearsal) -> None:
    """The agent's status verb against a docker exec of nothing."""
    host, engine = rehearsal.hosts[0], rehearsal.engine
    assert engine is not None
    execute = ["docker", *(["-H", engine.host] if engine.host else []), "exec", host.container]
    status = [sys.executable, "-I", "-S", f"{host.root}/agent/current", "status", "--root", str(host.root)]
    show(
        "Agent in the container",
        in_turn(
            [("docker exec agent status", [*execute, *status]), ("docker exec true", [*execute, "true"])],
            runs=RUNS,
        ),
    )


def idle(rehearsal: Rehearsal) -> None:
    """The supervisor of a ready unit, doing nothing."""
    host = rehearsal.hosts[0]
    rows = klops("ps", host.name, "-i", str(rehearsal.inventory), "-o", "json").json
    for word in ("hold", "supervise"):
        inside = [p for p in rows["hosts"][host.name]["processes"] if p["cpid"] != 1]  # docker-init
        (pid,) = [p["pid"] for p in inside if word in p["title"].split()]
        before = _ticks(pid)
        time.sleep(IDLE)  # the figure is what is used in this time
        share = (_ticks(pid) - before) / os.sysconf("SC_CLK_TCK") / IDLE
        rss = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        print(f"\nIdle {word}: {share:.2%} of a core over {IDLE} s, {rss / 2**20:.0f} MiB resident")


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failed:
        raise SystemExit(f"{failed.cmd}: {failed.stderr.decode(errors='replace')[-2000:]}") from failed
