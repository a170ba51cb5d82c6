"""Whole plays over real ssh where it hurts: floods, crowds, dead links, restarts, noisy accounts."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.host.accounts import Account
from tests.host.machines import Machine, end, entry, inventory, may_unshare, playbook
from tests.host.processes import running, until_runs
from tests.host.proxy import Proxy
from tests.host.sshd import Sshd, free_port, make_key, start_sshd
from tests.host.support import Done, klops
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = pytest.mark.host


def play(book: Path, hosts: Path, *args: str, timeout: float = 120) -> Done:
    """Run a playbook with JSON on standard output."""
    return klops("play", str(book), "-i", str(hosts), "-o", "json", *args, timeout=timeout)


def statuses(done: Done, host: str) -> list[str]:
    """What became of each task on a host."""
    tasks = done.json["plays"][0]["tasks"]
    return [task["hosts"][host]["status"] for task in tasks if host in task["hosts"]]


def error(done: Done, host: str) -> dict[str, str]:
    """Why a host dropped out."""
    found: dict[str, str] = done.json["hosts"][host]["error"]
    return found


def shown(**values: str) -> dict[str, Any]:
    """A task that writes expressions down, as JSON, on the control node: ``out_HOST`` beside the playbook."""
    pairs = ", ".join(f"{key!r}: {expression}" for key, expression in values.items())
    content = "{{ {" + pairs + "} | to_json }}"
    return {
        "copy": {"content": content, "dest": "{{ playbook_dir }}/out_{{ inventory_hostname }}"},
        "delegate_to": "localhost",
        "become": False,
    }


def read_shown(folder: Path, host: str) -> dict[str, Any]:
    """What :func:`shown` wrote."""
    found: dict[str, Any] = json.loads((folder / f"out_{host}").read_text())
    return found


# E29: floods


def peak_of(*args: str, note: Path) -> tuple[subprocess.CompletedProcess[str], float]:
    """Run klops under a process that notes how much memory it took at most, in MiB."""
    script = (
        "import resource, subprocess, sys; rc = subprocess.call(sys.argv[2:]);"
        "open(sys.argv[1], 'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss));"
        "sys.exit(rc)"
    )
    argv = [sys.executable, "-c", script, str(note), sys.executable, "-m", "klops", *args]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    unit = 1024 if sys.platform != "darwin" else 1
    return done, int(note.read_text()) * unit / 2**20


def test_row_E29_floods_are_drained_and_their_end_is_known(sshd: Sshd, tmp_path: Path) -> None:
    mebi = 1024 * 1024
    floods = {
        "both": f"head -c {10 * mebi} /dev/urandom & head -c {10 * mebi} /dev/urandom >&2; wait; exit 4",
        "err": f"head -c {5 * mebi} /dev/zero | tr '\\0' e >&2; exit 5",
        "line": f"head -c {mebi} /dev/zero | tr '\\0' x; exit 6",
        "beyond": f"head -c {33 * mebi} /dev/zero | tr '\\0' y",
        "child": "sleep 997.3 & exit 3",
        "silent": "timeout 1 sleep 997.4",
    }
    tasks: list[Mapping[str, Any]] = [
        {"name": name, "shell": script, "register": name, "failed_when": False}
        for name, script in floods.items()
    ]
    values = {f"{name}_rc": f"{name}.rc" for name in floods}
    values |= {f"{name}_out": f"{name}.stdout | length" for name in ("err", "line", "beyond", "silent")}
    values |= {"err_err": "err.stderr | length", "cut": "beyond.truncated", "whole": "line.truncated"}
    hosts = inventory(tmp_path / "hosts.json", {"a": entry(sshd, tmp_path / "a")})
    book = playbook(tmp_path / "book.json", *tasks, shown(**values))
    done, peak = peak_of("play", str(book), "-i", str(hosts), "-o", "json", note=tmp_path / "peak")
    # the one that holds the streams was not waited for
    children = running("sleep", "997.3")
    for pid in children:
        end(pid)
    assert len(children) == 1
    print(f"E29: {peak:.0f} MiB at most")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = read_shown(tmp_path, "a")
    assert [found[f"{name}_rc"] for name in floods] == [4, 5, 6, 0, 3, 124]
    assert (found["err_out"], found["err_err"], found["line_out"]) == (0, 5 * mebi, mebi)
    assert (found["beyond_out"], found["cut"], found["whole"]) == (32 * mebi, True, False)
    assert "said more than 32 MiB" in done.stderr
    assert running("sleep", "997.4") == []
    assert peak < 900


# E32: crowds, and each failure in its own words


def test_row_E32_a_crowd_at_one_sshd_and_each_failure_in_its_own_words(sshd: Sshd, tmp_path: Path) -> None:
    names = [f"n{number:02}" for number in range(20)]
    wrong = tmp_path / "wrong"
    make_key(wrong)
    tight = start_sshd(tmp_path / "tight", extra_config="MaxStartups 3:100:3\nMaxSessions 2")
    with ExitStack() as stack:
        stack.callback(tight.close)
        hosts = {name: entry(tight, tmp_path / name) for name in names}
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        # its queue is full: whoever comes now is not answered at all, as by a machine that is off
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(silent.getsockname())
        hosts["down"] = entry(sshd, tmp_path / "down", port=silent.getsockname()[1], ansible_timeout=3)
        hosts["refused"] = entry(sshd, tmp_path / "refused", port=free_port())
        hosts["denied"] = {**entry(sshd, tmp_path / "denied"), "ansible_ssh_private_key_file": str(wrong)}
        book = playbook(
            tmp_path / "book.json",
            {"command": "echo {{ inventory_hostname }}", "register": "said"},
            {"copy": {"content": "x\n", "dest": f"{tmp_path}/{{{{ inventory_hostname }}}}/x"}},
            {"stat": {"path": f"{tmp_path}/{{{{ inventory_hostname }}}}/x"}, "register": "there"},
            {"assert": {"that": ["said.stdout == inventory_hostname", "there.stat.size == 2"]}},
        )
        done = play(book, inventory(tmp_path / "hosts.json", hosts), "--forks", "24")
    assert done.rc == 4, done.stdout + done.stderr
    for name in names:
        assert statuses(done, name) == ["changed", "changed", "ok", "ok"], done.json["hosts"][name]
    told = {name: error(done, name) for name in ("down", "refused", "denied")}
    assert "no answer within 3 s" in told["down"]["message"]
    assert "connection refused" in told["refused"]["message"]
    assert "was not let in" in told["denied"]["message"]
    codes = {name: said["code"] for name, said in told.items()}
    assert codes == {"down": "unreachable", "refused": "unreachable", "denied": "authentication-failed"}


# E34: dead links and restarts


@contextmanager
def hanging_up() -> Iterator[int]:
    """The port of somebody who hangs up on everybody without a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.long
def test_row_E34_a_link_that_swallows_everything_in_mid_play(sshd: Sshd, tmp_path: Path) -> None:
    big, target = tmp_path / "big", tmp_path / "there" / "upload"
    with big.open("wb") as out:
        out.truncate(192 * 1024 * 1024)
    target.parent.mkdir()
    with Proxy(sshd.port) as proxy, hanging_up() as rude:
        through = entry(sshd, tmp_path / "c", port=proxy.port, nap="997.7", ansible_timeout=2)
        hosts = {name: entry(sshd, tmp_path / name, nap="3.1") for name in ("a", "b")}
        running_hosts = inventory(tmp_path / "hosts.json", {**hosts, "c": through})
        book = playbook(
            tmp_path / "book.json",
            {"command": "true"},
            {"name": "Long", "command": "sleep {{ nap }}"},
            {"copy": {"content": "x\n", "dest": f"{tmp_path}/{{{{ inventory_hostname }}}}/x"}},
        )
        far = entry(sshd, tmp_path / "d", port=proxy.port, ansible_timeout=2)
        # a host that drops us before its banner is tried for about as long as one that says nothing
        dropped = entry(sshd, tmp_path / "dropped", port=rude)
        uploading_hosts = inventory(tmp_path / "up.json", {"d": far, "dropped": dropped})
        upload = playbook(tmp_path / "upload.json", {"copy": {"src": str(big), "dest": str(target)}})
        ended: dict[str, Done] = {}

        def run(key: str, book: Path, hosts: Path) -> None:
            ended[key] = play(book, hosts)

        threads = [
            threading.Thread(target=run, args=("play", book, running_hosts)),
            threading.Thread(target=run, args=("upload", upload, uploading_hosts)),
        ]
        threads[0].start()
        until_runs("sleep", "997.7")
        threads[1].start()
        parts = lambda: [p for p in target.parent.rglob("*") if p.is_file() and p.stat().st_size]  # noqa: E731
        until(parts, what="the upload is under way")
        proxy.swallow.set()
        for thread in threads:
            thread.join()
    for pid in running("sleep", "997.7"):
        end(pid)
    done = ended["play"]
    assert done.rc == 4, done.stdout + done.stderr
    lost = error(done, "c")
    assert lost["code"] == "connection-lost"
    assert "connection lost during sleep 997.7: no answer for 14 s" in lost["message"]
    for name in ("a", "b"):
        assert statuses(done, name) == ["changed"] * 3
        assert (tmp_path / name / "x").exists()
    done = ended["upload"]
    assert done.rc == 4, done.stdout + done.stderr
    lost = error(done, "d")
    assert (lost["code"], "connection lost during" in lost["message"]) == ("connection-lost", True), lost
    assert not target.exists()
    rejected = error(done, "dropped")
    assert rejected["code"] == "unreachable"
    assert "dropped us before its banner" in rejected["message"]


restarts = pytest.mark.skipif(not may_unshare(), reason="needs a mount namespace, for a boot id of its own")


@restarts
def test_row_E34_a_restart_is_waited_for_and_the_lock_taken_anew(tmp_path: Path) -> None:
    with Machine(tmp_path / "machine") as machine:
        host = entry(machine.sshd, tmp_path / "a")
        lock, ready = tmp_path / "a" / "klops" / "lock", tmp_path / "ready"
        book = playbook(
            tmp_path / "book.json",
            {"copy": {"content": "one\n", "dest": str(tmp_path / "one")}},
            {"command": f"cat {lock}", "register": "before"},
            {
                "reboot": {
                    "reboot_command": machine.command,
                    "reboot_timeout": 30,
                    # not ready at the first look
                    "test_command": f"test -e {ready} || ! touch {ready}",
                },
                "register": "restart",
            },
            {"copy": {"content": "two\n", "dest": str(tmp_path / "two")}},
            {"command": f"cat {lock}", "register": "after"},
            shown(
                before="before.stdout | from_json",
                after="after.stdout | from_json",
                rebooted="restart.rebooted",
                elapsed="restart.elapsed",
                changed="restart.changed",
            ),
        )
        done = play(book, inventory(tmp_path / "hosts.json", {"a": host}))
    assert done.rc == 0, done.stdout + done.stderr
    found = read_shown(tmp_path, "a")
    assert (found["rebooted"], found["changed"]) == (True, True)
    assert 1 <= found["elapsed"] < 20
    assert [found[when]["boot_id"] for when in ("before", "after")] == machine.booted
    assert found["before"]["run"] == found["after"]["run"]
    assert (tmp_path / "two").exists()
    assert not lock.exists()


@restarts
def test_row_E34_a_restart_that_is_none_is_never_taken_for_one(tmp_path: Path) -> None:
    with ExitStack() as stack:
        same, gone, other = (
            stack.enter_context(Machine(tmp_path / name, away=away, boots=boots))
            for name, away, boots in (("m1", 0.3, ["x1", None]), ("m2", 600.0, []), ("m3", 0.3, []))
        )
        hosts = {
            "same": entry(same.sshd, tmp_path / "same", restart=same.command),
            "gone": entry(gone.sshd, tmp_path / "gone", restart=gone.command),
            "refused": entry(other.sshd, tmp_path / "refused", restart="echo not you >&2; exit 5"),
            "unfit": entry(other.sshd, tmp_path / "unfit", restart="exit 0"),
        }
        touch = f"{tmp_path}/{{{{ inventory_hostname }}}}/later"
        book = playbook(
            tmp_path / "book.json",
            {"copy": {"content": "first\n", "dest": f"{tmp_path}/{{{{ inventory_hostname }}}}/first"}},
            {
                "reboot": {"reboot_command": "{{ restart }}", "reboot_timeout": 5},
                "register": "restart",
                "ignore_errors": True,
            },
            {"copy": {"content": "later\n", "dest": touch}},
            shown(rebooted="restart.rebooted", failed="restart.failed", msg="restart.msg"),
        )
        path = inventory(tmp_path / "hosts.json", hosts)
        checked = play(book, path, "--check")
        assert statuses(checked, "gone")[1] == "changed", checked.stdout + checked.stderr
        assert [len(machine.booted) for machine in (same, gone, other)] == [1, 1, 1]
        done = play(book, path)
        assert [len(machine.booted) for machine in (same, gone, other)] == [2, 1, 1]
    assert done.rc == 4, done.stdout + done.stderr
    away = error(done, "gone")
    assert away["code"] == "unreachable"
    assert "did not come back within 5 s" in away["message"]
    assert "connection refused" in away["message"]
    for name, words in {
        "same": "its boot id is still x1",
        "refused": "ended with 5: not you",
        "unfit": "its boot id is still",
    }.items():
        found = read_shown(tmp_path, name)
        assert (found["rebooted"], found["failed"]) == (False, True), name
        assert words in found["msg"]
        # the lock is held still, so what comes next may change something
        assert (tmp_path / name / "later").exists()


# E35: noise


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own are the test user's alone."""
    with tempfile.TemporaryDirectory(prefix="klops-rows-") as place:
        Path(place).chmod(0o755)
        yield Path(place)


@pytest.fixture
def crowd(folder: Path) -> Iterator[tuple[Sshd, dict[str, str]]]:
    """An sshd with a long banner, and accounts by their shells, whose start-up files have much to say."""
    banner = folder / "banner"
    banner.write_text("".join(f"*** {{line {number}}} authorised use only ***\n" for number in range(30)))
    accounts: dict[str, Account] = {}
    with ExitStack() as stack:
        sshd = start_sshd(folder / "sshd", extra_config=f"Banner {banner}", own_home=False)
        stack.callback(sshd.close)
        for shell in ("bash", "dash", "fish", "tcsh"):
            path = shutil.which(shell)
            if path is None:
                continue
            home = folder / shell
            account = accounts[shell] = Account(shell, path, home)
            stack.callback(account.remove)
            noise = "printf '\\033[31mWelcome\\033[0m {\"a\": 1}\\n'\n"
            complaint = "" if shell == "tcsh" else "echo 'cannot set terminal' >&2\n"
            for name in (".bashrc", ".profile", ".tcshrc", ".config/fish/config.fish"):
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                (home / name).write_text(noise + complaint)
            subprocess.run(["chown", "-R", account.name, str(home)], check=True)
        yield sshd, {shell: account.name for shell, account in accounts.items()}


def test_row_E35_noise_of_accounts_is_nobodys_answer(
    crowd: tuple[Sshd, dict[str, str]], folder: Path, tmp_path: Path
) -> None:
    sshd, users = crowd
    document = '{"state": "up", "n": 3}'
    hosts = {
        shell: {
            **entry(sshd, tmp_path / shell),
            "ansible_user": user,
            "klops": {"root": f"/tmp/klops-{user}"},
        }
        for shell, user in users.items()
    }
    book = playbook(
        tmp_path / "book.json",
        {"shell": f"echo '{document}'; echo 'WARNING: config is old'", "register": "json"},
        {"command": {"argv": ["printf", "a\\r\\nb\\r\\n"]}, "register": "crlf"},
        {"command": "true", "register": "silent"},
        {"command": "printf ''", "register": "empty"},
        {"shell": "echo oops >&2; exit 3", "register": "failing", "failed_when": False},
        {"stat": {"path": str(folder / "banner")}, "register": "banner"},
        {"slurp": {"src": str(folder / "banner")}, "register": "slurped"},
        shown(
            hostname="ansible_facts.hostname",
            user="ansible_facts.user_id",
            shell="ansible_facts.user_shell",
            document="json.stdout_lines[0] | from_json",
            lines="json.stdout_lines",
            crlf="[crlf.stdout, crlf.stdout_lines]",
            silent="[silent.stdout, silent.stderr]",
            empty="[empty.stdout, empty.stderr]",
            failing="[failing.rc, failing.stdout, failing.stderr]",
            size="banner.stat.size",
            owner="banner.stat.pw_name",
            slurped="slurped.content | b64decode",
        ),
        gather_facts=True,
    )
    done = play(book, inventory(tmp_path / "hosts.json", hosts))
    assert done.rc == 0, done.stdout + done.stderr
    banner = folder / "banner"
    for shell, user in users.items():
        assert read_shown(tmp_path, shell) == {
            "hostname": socket.gethostname().split(".")[0],
            "user": user,
            "shell": shutil.which(shell),
            "document": {"state": "up", "n": 3},
            "lines": [document, "WARNING: config is old"],
            "crlf": ["a\r\nb", ["a", "b"]],
            "silent": ["", ""],
            "empty": ["", ""],
            "failing": [3, "", "oops"],
            "size": banner.stat().st_size,
            "owner": "root",
            "slurped": banner.read_text(),
        }, shell
    # what start-up files and sshd say is no part of any answer, and of no interest
    assert "Welcome" not in done.stdout + done.stderr
    assert "cannot set terminal" not in done.stdout + done.stderr


def test_row_E35_a_driver_that_warns_before_its_table(make_rehearsal: MakeRehearsal) -> None:
    rehearsal = make_rehearsal(hosts=1, transports=["ssh"])
    (host,) = rehearsal.hosts

    def cards() -> Any:
        done = klops("status", host.name, "-i", str(rehearsal.inventory), "-o", "json")
        assert done.rc == 0, done.stdout + done.stderr
        return done.json["hosts"][host.name]["cards"]

    quiet = cards()
    assert len(quiet) == 8
    (tool,) = (path for path in host.directory.rglob("xpu-smi") if path.is_file())
    real = tool.rename(tool.with_name("xpu-smi.real"))
    tool.write_text(
        "#!/bin/sh\n"
        "echo 'WARNING: driver 5.0.21.47 and runtime 5.0.22 differ: 8 devices may not work'\n"
        "echo 'XPU 0: warning: link is slow' >&2\n"
        f"{real} \"$@\" | sed 's/$/\\r/'\n"
    )
    tool.chmod(0o755)
    assert cards() == quiet
