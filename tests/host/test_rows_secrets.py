"""H50: a secret in every place of a playbook where one can be put, and in none where it isn't needed.

What klops promises is about values that it *knows* to be secret: the typed settings (``api_key``: a value,
``{env: NAME}``, ``{file: PATH}``, ``{command: [...]}``), and the passwords of a connection
(``ansible_password``, ``ansible_become_password``), from the inventory or from ``-e``. Such a
value is masked wherever it turns up in a play, by whatever way it came there. A variable by any other name is
none of these, whatever it is called: ``no_log`` hides what a task does with it. ``klops inventory`` runs
nothing and masks by name.

A program that gets a secret as an argument, in its environment or in its file has it: that is what the
playbook asks for. All else (klops' processes on both sides, its files, and all that it says) is its own.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.host.machines import entry, inventory
from tests.host.sshd import Sshd
from tests.host.support import Done, klops
from tests.host.test_secret_sinks import spellings

pytestmark = pytest.mark.host

#: nobody else's on this machine: all processes are looked at, those of other tests too
SECRET = 'r0w-H50-é"$x'
NAME = "ROW_H50_SECRET"
#: in the arguments of a program that a task runs: says whose they are
PROGRAM = "row-h50-program"


def needles(secret: str) -> dict[str, bytes]:
    """Every form that is looked for, by itself and as a part of a longer text in base64."""
    found = {text.decode(): text for text in spellings(secret)}
    yaml = json.dumps(secret, ensure_ascii=False)[1:-1]
    found[yaml] = yaml.encode()
    latin = secret.replace('"', '\\"').replace("é", "\\xE9")
    found[latin] = latin.encode()
    login = base64.b64encode(f"user:{secret}".encode()).decode().rstrip("=")
    found[login] = login.encode()
    lower = urllib.parse.quote(secret, safe="").replace("%C3%A9", "%c3%a9")
    found[lower] = lower.encode()
    return found


class Processes(threading.Thread):
    """Samples arguments and environments of all processes until told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        #: (arguments, environment)
        self.seen: set[tuple[bytes, bytes]] = set()
        self.rounds = 0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.01):
            self.rounds += 1
            for found in os.scandir("/proc"):
                if found.name.isdigit():
                    try:
                        line = Path(found.path, "cmdline").read_bytes()
                        self.seen.add((line, Path(found.path, "environ").read_bytes()))
                    except OSError:
                        continue  # it ended while we looked

    def stop(self) -> None:
        self._over.set()
        self.join()


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Says what it was asked for, as a service does that shows its request in an error."""
        body = f"asked {self.path} {self.headers.get('X-Token')} {self.headers.get('Authorization')}".encode()
        self.send_response(200 if self.path.startswith("/ok") else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    """A service that shows its callers all they sent."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def tasks(port: int) -> list[dict[str, Any]]:
    """``token`` in every place, and what fails with it; ``{{ there }}`` is the host's own folder."""
    program = f"sh -c 'echo \"said $1\"; sleep 0.1; exit $2' {PROGRAM}"
    keep: dict[str, Any] = {"ignore_errors": True}
    encoded = "{{ token | urlencode }}"
    return [
        {"name": "argument", "command": program + " {{ token | quote }} 0", "register": "said"},
        {"name": "argv", "command": {"argv": ["echo", PROGRAM, "{{ token }}"]}},
        {"name": "stdin", "command": {"cmd": "cat", "stdin": "{{ token }}"}},
        {"name": "shell", "shell": f": {PROGRAM}; echo {{{{ token | quote }}}} | sed p; sleep 0.1"},
        {"name": "xtrace", "shell": f"set -x; : {PROGRAM} {{{{ token | quote }}}}; sleep 0.1"},
        {
            "name": "environment",
            "shell": f": {PROGRAM}; env | grep TOKEN; sleep 0.1",
            "environment": {"TOKEN": "{{ token }}"},
        },
        {
            "name": "item {{ token }}",
            "debug": {"msg": "{{ item }}"},
            "loop": ["{{ token }}", {"key": "{{ token }}"}],
        },
        {
            "name": "label",
            "command": "true",
            "loop": [1, 2],
            "loop_control": {"label": "{{ token }} {{ item }}"},
        },
        {
            "name": "template",
            "template": {"src": "conf.j2", "dest": "{{ there }}/conf", "mode": "0600"},
            "notify": "handler {{ token }}",
        },
        {
            "name": "copy",
            "copy": {"content": "old {{ token }}\nx: 1\n", "dest": "{{ there }}/copied", "mode": "0600"},
        },
        {
            "name": "copy again",
            "copy": {"content": "new {{ token }}\nx: 2\n", "dest": "{{ there }}/copied", "mode": "0600"},
        },
        {
            "name": "binary",
            "copy": {"content": "{{ token | b64encode }}\n", "dest": "{{ there }}/binary", "mode": "0600"},
        },
        {
            "name": "line",
            "lineinfile": {"path": "{{ there }}/copied", "line": "line={{ token }}", "regexp": "^x: "},
        },
        {
            "name": "block",
            "blockinfile": {
                "path": "{{ there }}/copied",
                "block": "a: {{ token | to_json }}\nb: {{ token }}",
            },
        },
        {
            "name": "uri",
            "uri": {
                "url": f"http://user:{encoded}@127.0.0.1:{port}/ok?k={encoded}",
                "headers": {"X-Token": "{{ token | b64encode }}"},
                "return_content": True,
            },
            **keep,
        },
        {
            "name": "uri login",
            "uri": {
                "url": f"http://127.0.0.1:{port}/ok",
                "url_username": "user",
                "url_password": "{{ token }}",
                "force_basic_auth": True,
                "return_content": True,
            },
            **keep,
        },
        {
            "name": "uri fails",
            "uri": {"url": f"http://user:{{{{ token | urlencode }}}}@127.0.0.1:{port}/no"},
            **keep,
        },
        {"name": "nobody there", "uri": {"url": "http://user:{{ token | urlencode }}@127.0.0.1:1/"}, **keep},
        {"name": "fact", "set_fact": {"made": "{{ token }}", "deep": {"k": ["{{ token }}"]}}},
        {"name": "show", "debug": {"var": "said"}},
        {"name": "show fact", "debug": {"msg": "{{ made }} {{ deep | to_nice_yaml }} {{ deep | to_json }}"}},
        {"name": "all", "debug": {"var": "vars"}, **keep},
        {"name": "failing", "command": program + " {{ token | quote }} 3", **keep},
        {"name": "no program", "command": {"argv": ["/no/such/{{ token }}"]}, **keep},
        {"name": "no folder", "command": {"cmd": "true", "chdir": "/no/such/{{ token }}"}, **keep},
        {"name": "no file", "copy": {"src": "no-{{ token }}", "dest": "{{ there }}/x"}, **keep},
        {"name": "bad mode", "file": {"path": "{{ there }}/copied", "mode": "{{ token }}"}, **keep},
        {"name": "fail", "fail": {"msg": "why {{ token }}"}, **keep},
        {"name": "assert", "assert": {"that": ["token == 'other'"], "fail_msg": "not {{ token }}"}, **keep},
        {
            "name": "until",
            "command": program + " {{ token | quote }} 4",
            "until": "token in tried.stderr",
            "register": "tried",
            "retries": 1,
            "delay": 0,
            **keep,
        },
        {"name": "when", "debug": {"msg": "x"}, "when": "token == made + 'x'"},
        {"name": "bad filter", "debug": {"msg": "{{ token | int + {} }}"}, **keep},
        {"name": "missing", "debug": {"msg": "{{ {token: 1}[token + 'x'] }}"}, **keep},
        {
            "name": "delegated",
            "command": program + " {{ token | quote }} 5",
            "delegate_to": "localhost",
            **keep,
        },
        {"name": "no_log", "command": program + " {{ token | quote }} 6", "no_log": True, **keep},
        {"name": "included", "include_tasks": "more.yml", "vars": {"given": "{{ token }}"}},
        {"name": "script", "script": {"cmd": "run.sh {{ token | quote }}"}, **keep},
        {"name": "slurp", "slurp": {"src": "{{ there }}/conf"}, "register": "read"},
        {"name": "show slurped", "debug": {"var": "read"}},
        {"name": "show decoded", "debug": {"msg": "{{ read.content | b64decode }}"}},
        {
            "name": "fetch",
            "fetch": {"src": "{{ there }}/copied", "dest": "{{ playbook_dir }}/fetched", "flat": True},
        },
        {
            "name": "cron",
            "cron": {
                "name": "row h50 {{ token }}",
                "job": "true {{ token }}",
                "cron_file": "/no/such/{{ token }}",
            },
            **keep,
        },
        # ends the host, and leaves the handler in notified.json
        {"name": "included {{ token }}", "include_tasks": "{{ token }}.yml"},
    ]


SOURCES = ("env", "file", "command", "inventory", "extra")


class Site:
    """An inventory, a playbook and its files; the secret comes from one of ``SOURCES``."""

    def __init__(self, folder: Path, sshd: Sshd, port: int, source: str) -> None:
        self.folder = folder
        self.there = folder / "there"
        self.there.mkdir()
        self.env: dict[str, str] = {NAME: SECRET} if source == "env" else {}
        self.args: list[str] = []
        variables: dict[str, Any] = {"there": str(self.there)}
        secret_file = folder / "secret"
        secret_file.write_text(SECRET + "\n")
        form: dict[str, Any] = {
            "env": {"env": NAME},
            "file": {"file": str(secret_file)},
            "command": {"command": ["cat", str(secret_file)]},
        }
        if source in form:
            host = entry(sshd, folder / "a", **variables)
            host["klops"]["services"] = {"llm": {"model": "/models/m", "port": 8000, "api_key": form[source]}}
            got = {"env": f"lookup('env', '{NAME}')"}.get(source, f"lookup('file', '{secret_file}')")
            host["token"] = "{{ " + got + " }}"
        else:
            host = entry(sshd, folder / "a", **variables, token="{{ ansible_become_password }}")
            if source == "inventory":
                host["ansible_become_password"] = SECRET
            else:
                self.args = ["-e", json.dumps({"ansible_become_password": SECRET})]
        self.hosts = inventory(folder / "hosts.json", {"a": host})
        play = {
            "name": "play",
            "hosts": "all",
            "vars": {"nested": {"in a list": ["{{ token }}"]}},
            "tasks": tasks(port),
            "handlers": [{"name": "handler {{ token }}", "command": "true"}],
        }
        self.book = folder / "play.json"
        self.book.write_text(json.dumps([play]))
        (folder / "templates").mkdir()
        (folder / "templates" / "conf.j2").write_text("key: {{ token }}\njson: {{ token | to_json }}\n")
        (folder / "files").mkdir()
        (folder / "files" / "run.sh").write_text('#!/bin/sh\necho "ran $1"\nexit 7\n')
        show = [{"name": "given", "debug": {"msg": "{{ given }} {{ nested }}"}}]
        (folder / "more.yml").write_text(json.dumps(show))

    def is_klops_own(self, path: Path) -> bool:
        """Whether a file is klops' own, not what the user wrote or what tasks were to write."""
        users = (self.hosts, self.book, self.folder / "secret", self.folder / "fetched")
        return path not in users and self.there not in path.parents

    def klops(self, *argv: str) -> Done:
        return klops(*argv, "-i", str(self.hosts), *self.args, env=self.env)


@pytest.mark.parametrize(
    "source", [SOURCES[0], *(pytest.param(one, marks=pytest.mark.long) for one in SOURCES[1:])]
)
def test_row_H50_nothing_of_klops_holds_what_is_known_to_be_secret(
    sshd: Sshd, port: int, tmp_path: Path, source: str
) -> None:
    site = Site(tmp_path, sshd, port, source)
    sinks: dict[str, bytes] = {}

    def keep(*argv: str) -> Done:
        done = site.klops(*argv)
        sinks["klops " + " ".join(argv)] = (done.stdout + done.stderr).encode()
        return done

    book = str(site.book)
    assert keep("play", book, "--list-tasks").rc == 0
    keep("play", book, "--check", "--diff", "-vvv")
    watch = Processes()
    watch.start()
    run = keep("play", book, "--diff", "-vvv")
    noted = site.folder / "a" / "klops" / "notified.json"
    assert noted.exists(), run.stderr
    watch.stop()
    sinks["notified.json"] = noted.read_bytes()
    done = keep("play", book, "--diff", "-vvv", "-o", "json").json
    for argv in (["list"], ["explain", "a", "all"]):
        assert keep("inventory", *argv).rc == 0

    # the tasks did what they are to do: the secret was there
    ended = {task["name"]: task["hosts"]["a"]["status"] for task in done["plays"][0]["tasks"]}
    told = {task["name"]: task["hosts"]["a"]["message"] for task in done["plays"][0]["tasks"]}
    assert (ended["argument"], ended["uri"], ended["fetch"]) == ("changed", "ok", "ok"), told["uri"]
    assert SECRET in (site.there / "copied").read_text() == (site.folder / "fetched").read_text()
    assert (ended["failing"], ended["until"], ended["script"]) == ("failed", "failed", "failed")
    assert "said ********" in run.stdout

    for path in tmp_path.rglob("*"):
        if path.is_file() and site.is_klops_own(path):
            sinks[str(path.relative_to(tmp_path))] = path.read_bytes()
    sinks["log of sshd"] = sshd.log.read_bytes()
    found = {
        (name, form) for name, text in sinks.items() for form, raw in needles(SECRET).items() if raw in text
    }
    assert found == set()
    assert [path.name for path in site.there.iterdir() if path.name not in ("conf", "copied", "binary")] == []

    assert watch.rounds > 50
    assert own_arguments(watch) == set()
    assert in_environments(watch) <= {"TOKEN", *site.env}


def own_arguments(watch: Processes) -> set[bytes]:
    """Command lines with the secret, other than of the user's programs and of klops as the user called it."""
    # a script and what runs it have the script's own arguments, for as long as it runs
    users = (PROGRAM.encode(), b"-m\0klops\0", b"\0klops-script\0", b"/run.sh\0")
    raw = needles(SECRET).values()
    return {
        line
        for line, _ in watch.seen
        if any(text in line for text in raw) and not any(mark in line for mark in users)
    }


def in_environments(watch: Processes) -> set[str]:
    """Names of variables with the secret."""
    return {
        entry.partition(b"=")[0].decode("utf-8", "replace")
        for _, environment in watch.seen
        for entry in environment.split(b"\0")
        if any(text in entry for text in needles(SECRET).values())
    }


#: klops with a fault: what ends the command, and what a task does, raise an exception that tells the secret
FAULTY = """
import sys
from klops.actions.control.debug import Debug
from klops.cli import main, running
secret = sys.argv.pop(1)
def fault(*args, **kwargs):
    raise RuntimeError(f"what is {secret!r}?")
Debug.plan = fault
running.finish = fault
main.main()
"""


def test_row_H50_tracebacks_hold_no_secret(sshd: Sshd, port: int, tmp_path: Path) -> None:
    site = Site(tmp_path, sshd, port, "inventory")
    site.book.write_text(json.dumps([{"hosts": "all", "tasks": [{"name": "t", "debug": {"msg": "x"}}]}]))
    argv = [sys.executable, "-c", FAULTY, SECRET]
    done = subprocess.run(
        [*argv, "play", str(site.book), "-i", str(site.hosts), "-vvv"], capture_output=True, check=False
    )
    said = done.stdout + done.stderr
    assert said.count(b"Traceback") == 2, said
    assert b"RuntimeError: what is" in said
    assert [form for form, raw in needles(SECRET).items() if raw in said] == []


@pytest.mark.parametrize("secret", ["", "x", "abc"])
def test_row_H50_a_very_short_secret_does_not_mask_the_log(sshd: Sshd, tmp_path: Path, secret: str) -> None:
    hosts = inventory(
        tmp_path / "hosts.json", {"a": entry(sshd, tmp_path / "a", ansible_become_password=secret)}
    )
    book = tmp_path / "play.json"
    text = "axb: abc, example"
    book.write_text(json.dumps([{"hosts": "all", "tasks": [{"name": text, "debug": {"msg": text}}]}]))
    done = klops("play", str(book), "-i", str(hosts), "-v")
    assert done.rc == 0, done.stderr
    assert done.stdout.count(text) == 2
    assert "********" not in done.stdout


def test_row_H50_no_log_hides_what_a_task_does_with_any_variable(sshd: Sshd, tmp_path: Path) -> None:
    hosts = inventory(tmp_path / "hosts.json", {"a": entry(sshd, tmp_path / "a", token=SECRET)})
    use = "echo {{ token | quote }}; echo {{ token | quote }} >&2"
    tasks = [
        {"name": "shown", "shell": use, "no_log": True, "register": "said"},
        {"name": "failing", "shell": f"{use}; exit 3", "no_log": True, "ignore_errors": True},
        {
            "name": "loop",
            "shell": f"{use}; exit 4",
            "loop": ["{{ token }}"],
            "no_log": True,
            "ignore_errors": True,
        },
        {
            "name": "until",
            "shell": use,
            "until": "false",
            "retries": 1,
            "delay": 0,
            "no_log": True,
            "ignore_errors": True,
        },
        {"name": "undefined", "debug": {"msg": "{{ {}[token] }}"}, "no_log": True, "ignore_errors": True},
        {"name": "copy", "copy": {"content": "{{ token }}", "dest": str(tmp_path / "x")}, "no_log": True},
        {
            "name": "known",
            "assert": {"that": ["said.stdout == token", "said.stderr == token"], "quiet": True},
        },
    ]
    book = tmp_path / "play.json"
    book.write_text(json.dumps([{"hosts": "all", "tasks": tasks}]))
    for more in ([], ["-o", "json"], ["--check"]):
        done = klops("play", str(book), "-i", str(hosts), "--diff", "-vvv", *more)
        said = (done.stdout + done.stderr).encode()
        assert [form for form, raw in needles(SECRET).items() if raw in said] == []
    assert (tmp_path / "x").read_text() == SECRET
