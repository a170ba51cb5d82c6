"""Generic actions carried out for real on this machine, in a temporary folder."""

from __future__ import annotations

import http.server
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from klops.remote.base import Remote, Stream
from klops.remote.fake import FakeRemote
from klops.remote.local import LocalRemote
from tests.unit.playbook.support import Lab, Ran


class Here(Lab):
    """A lab whose host is this machine."""

    def both(self, text: str, **options: Any) -> tuple[Ran, Ran, Ran]:
        """Check, run, run again."""
        return (
            self.tasks(text, check=True, **options),
            self.tasks(text, **options),
            self.tasks(text, **options),
        )


@pytest.fixture
def here(tmp_path: Path) -> Here:
    """This machine."""

    def local(_: FakeRemote) -> Remote:
        return LocalRemote("h1")

    folder = tmp_path / "playbook"
    folder.mkdir()
    (tmp_path / "host").mkdir()
    inventory = f"all: {{hosts: {{h1: {{dir: {tmp_path}/host}}}}}}"
    return Here(folder, inventory=inventory, wrap=local)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """The folder that tasks work in."""
    return tmp_path / "host"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_copy_and_template(here: Here, host: Path) -> None:
    (here.folder / "files").mkdir()
    (here.folder / "files" / "blob").write_bytes(b"\x00\xff")
    (here.folder / "templates").mkdir()
    (here.folder / "templates" / "conf.j2").write_text("{% for n in ports %}\nport {{ n }}\n{% endfor %}\n")
    (host / "conf").write_text("port 1\n")
    (host / "conf").chmod(0o600)
    text = """\
        - copy: {src: blob, dest: "{{ dir }}/new/blob", mode: 0640}
        - copy: {content: {a: [1]}, dest: "{{ dir }}/x.json"}
        - template: {src: conf.j2, dest: "{{ dir }}/conf", mode: "0644"}
          vars: {ports: [1, 2]}
        """
    check, first, second = here.both(text)
    assert check.statuses() == first.statuses() == ["changed"] * 3
    assert second.statuses() == ["ok"] * 3
    assert second.result.remote_commands == {"h1": 1}
    assert (host / "new" / "blob").read_bytes() == b"\x00\xff"
    assert mode(host / "new" / "blob") == 0o640
    assert (host / "x.json").read_text() == '{"a": [1]}'
    assert (host / "conf").read_text() == "port 1\nport 2\n"
    assert mode(host / "conf") == 0o644
    change = check.task(2).changes[0]
    assert (change.before, change.after) == ("port 1\n", "port 1\nport 2\n")
    assert check.task(0).changes[0].before is None


def test_file_states(here: Here, host: Path) -> None:
    (host / "old").mkdir()
    (host / "old" / "inner").write_text("")
    (host / "plain").write_text("")
    (host / "plain").chmod(0o600)
    text = """\
        - file: {path: "{{ dir }}/a/b", state: directory, mode: 02750}
        - file: {path: "{{ dir }}/plain", mode: 644}
        - file: {path: "{{ dir }}/link", src: "{{ dir }}/plain", state: link}
        - file: {path: "{{ dir }}/old", state: absent}
        - file: {path: "{{ dir }}/a", mode: 0700}
        """
    check, first, second = here.both(text)
    # in check mode the folder isn't there yet, so its mode can't be looked at
    assert check.statuses() == ["changed"] * 4 + ["unknown"]
    assert first.statuses() == ["changed"] * 5
    assert second.statuses() == ["ok"] * 5
    assert mode(host / "a" / "b") == 0o2750
    assert mode(host / "a") == 0o700
    assert mode(host / "plain") == 0o644
    assert (host / "link").resolve() == host / "plain"
    assert not (host / "old").exists()


def test_file_refuses_to_replace_another_kind(here: Here, host: Path) -> None:
    (host / "plain").write_text("")
    ran = here.tasks('- file: {path: "{{ dir }}/plain", state: directory}')
    assert "is a file, not a folder" in str(ran.result.errors["h1"])
    assert here.tasks('- file: {path: "{{ dir }}/none", state: file}').statuses() == ["failed"]
    assert here.tasks('- file: {path: "{{ dir }}/t", state: touch}').statuses() == ["changed"]
    assert (host / "t").exists()


def test_wait_for_a_path_and_a_port(here: Here, host: Path, server: str) -> None:
    port = server.rsplit(":", 1)[1]
    ran = here.tasks(
        f"""\
        - wait_for: {{port: {port}, timeout: 5}}
        - wait_for: {{path: "{{{{ dir }}}}", state: present}}
        - wait_for: {{path: "{{{{ dir }}}}/none", state: absent}}
        - wait_for: {{path: "{{{{ dir }}}}/none", timeout: 0.2, sleep: 0.1}}
        """
    )
    assert ran.statuses() == ["ok", "ok", "ok", "failed"]
    assert ran.result.errors["h1"].code == "timeout"
    assert ran.locks == []
    assert here.tasks(f"- wait_for: {{port: {port}}}", check=True).statuses() == ["unknown"]


class Forbidding(LocalRemote):
    """A host whose connections fail in one way."""

    def __init__(self, error: OSError) -> None:
        super().__init__("h1")
        self._error = error

    def connect(self, host: str, port: int, *, timeout: float) -> Stream:
        raise self._error

    def clone(self, *, become: bool | None = None, become_user: str | None = None) -> Remote:
        return self


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PermissionError(1, "the host's sshd forbids it (AllowTcpForwarding)"), "not-tried"),
        # a host that starts, or a name that is not known yet, is waited for
        (socket.gaierror(-2, "Name or service not known"), ""),
        (OSError(113, "No route to host"), ""),
        (ConnectionRefusedError(111, "Connection refused"), ""),
        (TimeoutError(110, "no answer within 5 s"), ""),
    ],
)
def test_a_port_that_could_not_be_tried_is_not_gone(here: Here, error: OSError, code: str) -> None:
    here.wrap = lambda _: Forbidding(error)
    ran = here.tasks("- wait_for: {port: 1, state: stopped, timeout: 5}")
    assert ran.statuses() == ["failed" if code else "ok"]
    assert [found.code for found in ran.result.errors.values()] == ([code] if code else [])
    ran = here.tasks("- wait_for: {port: 1, timeout: 0.05, sleep: 0.01}")
    assert [found.code for found in ran.result.errors.values()] == [code or "timeout"]
    assert code or ran.result.errors["h1"].values["elapsed"] == 0


class Answers(http.server.BaseHTTPRequestHandler):
    """Says what it was asked."""

    def do_GET(self) -> None:
        self._answer(401 if self.headers.get("Authorization") != "Bearer k" else 200)

    def do_POST(self) -> None:
        self._answer(201)

    def _answer(self, status: int) -> None:
        body = (
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            or b'{"path": "%s"}' % self.path.encode()
        )
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[str]:
    """A web server of this test."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{made.server_address[1]}"
        made.shutdown()
        thread.join()


def test_uri(here: Here, server: str) -> None:
    ran = here.tasks(
        f"""\
        - uri: {{url: "{server}/a?b=c", headers: {{Authorization: Bearer k}}, return_content: true}}
          register: got
        - debug: {{msg: "{{{{ got.json.path }}}} {{{{ got.status }}}} {{{{ got.content_type }}}}"}}
        - uri: {{url: "{server}/", status_code: [200, 401]}}
        - uri: {{url: "{server}/", method: POST, body: {{x: 1}}, body_format: json, status_code: 201}}
          register: posted
        - debug: {{msg: "{{{{ posted.json.x }}}}"}}
        - uri: {{url: "{server}/"}}
        """
    )
    assert ran.statuses() == ["ok", "ok", "ok", "ok", "ok", "failed"]
    assert ran.task(1).message == "/a?b=c 200 application/json"
    assert ran.task(4).message == "1"
    assert ran.result.errors["h1"].code == "http-status"


def test_uri_when_nobody_answers(here: Here, server: str) -> None:
    ran = here.tasks("- uri: {url: 'http://127.0.0.1:1/'}")
    assert ran.result.errors["h1"].code == "no-answer"


def test_a_header_that_can_not_be_sent_is_not_shown(here: Here, server: str) -> None:
    ran = here.tasks(f'- uri: {{url: "{server}/", headers: {{Authorization: "Bearer s3cr3t-made-up\\n"}}}}')
    error = ran.result.errors["h1"]
    assert error.code == "request"
    assert "s3cr3t" not in f"{error} {error.hint} {ran.sink.events!r}"


def test_assert_fail_and_debug(here: Here) -> None:
    ran = here.tasks(
        """\
        - assert: {that: [1 < 2, dir is defined]}
        - assert: {that: "dir == 'x'", fail_msg: wrong folder}
        """
    )
    assert ran.statuses() == ["ok", "failed"]
    error = ran.result.errors["h1"]
    assert (error.code, str(error), error.hint) == ("assertion", "wrong folder", "does not hold: dir == 'x'")
    assert here.tasks("- assert: {that: dir}").result.errors["h1"].code == "condition"
    assert str(here.tasks("- fail: {msg: enough}").result.errors["h1"]) == "enough"
    assert here.tasks("- debug:").task(0).message == "Hello world!"


def test_local_files_that_are_not_there(here: Here) -> None:
    ran = here.tasks("- copy: {src: '{{ name }}', dest: /tmp/x, }\n  vars: {name: nothing}", check=True)
    error = ran.result.errors["h1"]
    assert error.code == "local-file"
    assert str(here.folder / "files" / "nothing") in error.message
