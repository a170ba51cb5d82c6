"""uri and wait_for with servers of this machine: TLS, redirects, authentication, files, searches."""

from __future__ import annotations

import base64
import datetime
import http.server
import ipaddress
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from klops.actions.net import wait_for
from klops.actions.net.http import Answer, Asked, redirected
from klops.errors import TaskFailed
from klops.remote.filereads import TailRead
from klops.remote.local import LocalRemote
from tests.unit.actions.playground import Playground

BASIC = "Basic " + base64.b64encode(b"me:s3cret").decode()


class Answers(http.server.BaseHTTPRequestHandler):
    """Says what it was asked, as JSON; some paths do more."""

    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        status, more = 200, {}
        if self.path.startswith("/to/"):
            _, _, code, where = self.path.split("/", 3)
            status, more = int(code), {"Location": f"/{where}"}
        elif self.path == "/private" and self.headers.get("Authorization") != BASIC:
            status, more = 401, {"WWW-Authenticate": 'Basic realm="x"'}
        elif self.path == "/cookies":
            more = {"Set-Cookie": "a=1; Path=/"}
        said = {"method": self.command, "path": self.path, "body": body, "headers": dict(self.headers)}
        data = b"" if self.command == "HEAD" else json.dumps(said).encode()
        if self.path.startswith("/bytes/"):
            data = b"x" * int(self.path.rpartition("/")[2])
        elif self.path == "/cut":
            more = {"Content-Length": str(len(data) + 1), "Connection": "close"}
            self.close_connection = True
        elif self.path == "/endless":
            # without a length, until whoever asks has had enough
            more = {"Content-Length": "", "Connection": "close"}
            data = b"x" * 4096
            self.close_connection = True
        self.send_response(status)
        for key, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            **more,
        }.items():
            if value:
                self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)

    def __getattr__(self, name: str) -> Any:
        """Every method is answered in the same way."""
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)

    def log_message(self, *args: Any) -> None:
        """Quiet."""


def served(context: ssl.SSLContext | None = None) -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as made:
        made.daemon_threads = True
        if context is not None:
            made.socket = context.wrap_socket(made.socket, server_side=True)
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made.server_address[1]
        made.shutdown()
        thread.join()


@pytest.fixture
def server() -> Iterator[str]:
    """A web server."""
    for port in served():
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "klops test")])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    (tmp_path / "ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def secure(pem: Path) -> Iterator[str]:
    """A web server that speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    for port in served(context):
        yield f"https://127.0.0.1:{port}"


@pytest.fixture
def ground(tmp_path: Path) -> Playground:
    return Playground(tmp_path)


def test_https_is_trusted_by_the_authority_on_the_host(
    ground: Playground, secure: str, tmp_path: Path
) -> None:
    body = "x" * 200_000
    values = ground.do("uri", url=f"{secure}/a?b", method="POST", body=body, ca_path=f"{tmp_path}/ca.pem")
    assert values["json"]["body"] == body
    assert values["json"]["headers"]["Host"] == secure.removeprefix("https://")
    with pytest.raises(TaskFailed, match="not trusted") as raised:
        ground.do("uri", url=secure)
    assert raised.value.code == "certificate"
    assert ground.do("uri", url=secure, validate_certs=False)["status"] == 200


def test_https_checks_the_name(ground: Playground, secure: str, tmp_path: Path) -> None:
    with pytest.raises(TaskFailed, match="not trusted"):
        ground.do("uri", url=secure.replace("127.0.0.1", "localhost"), ca_path=f"{tmp_path}/ca.pem")


def test_what_is_registered(ground: Playground, server: str) -> None:
    values = ground.do("uri", url=f"{server}/cookies", return_content=True, http_agent="me")
    length = len(values["content"])
    wanted = {
        "url": f"{server}/cookies",
        "status": 200,
        "redirected": False,
        "msg": f"OK ({length} bytes)",
        "cookies": {"a": "1"},
        "cookies_string": "a=1",
        "content_type": "application/json",
        "changed": False,
    }
    assert {key: values[key] for key in wanted} == wanted
    assert values["json"]["headers"]["User-Agent"] == "me"


@pytest.mark.parametrize(
    ("method", "code", "follow", "seen"),
    [
        ("GET", 302, "safe", "GET"),
        ("HEAD", 302, "safe", "HEAD"),
        ("POST", 302, "safe", None),
        ("GET", 302, "none", None),
        ("POST", 302, "all", "GET"),
        ("POST", 307, "all", "POST"),
        ("PUT", 308, "all", "PUT"),
        ("POST", 307, "urllib2", None),
    ],
)
def test_redirects(
    ground: Playground, server: str, method: str, code: int, follow: str, seen: str | None
) -> None:
    sent = {"body": "x"} if method in ("POST", "PUT") else {}
    values = ground.do(
        "uri",
        url=f"{server}/to/{code}/there",
        method=method,
        follow_redirects=follow,
        status_code=[200, code],
        **sent,
    )
    if seen is None:
        assert (values["status"], values["redirected"]) == (code, False)
        assert values["location"] == f"{server}/there"
        return
    assert (values["status"], values["redirected"], values["url"]) == (200, True, f"{server}/there")
    if seen != "HEAD":
        assert values["json"]["method"] == seen
        assert values["json"]["body"] == ("x" if seen in ("POST", "PUT") else "")


def test_redirects_in_a_circle_end(ground: Playground, server: str) -> None:
    with pytest.raises(TaskFailed, match="more than 10 redirects"):
        ground.do("uri", url=f"{server}/to/302/" + "to/302/" * 20)


def test_another_server_sees_no_password() -> None:
    asked = Asked(
        "http://a/", "GET", {"Authorization": "Bearer k", "X-Own": "1", "Accept": "*"}, user=("me", "pw")
    )
    answer = Answer("http://a/", 302, "", [("Location", "https://a/")], b"")
    leads_to = redirected(asked, answer, "safe", ["x-own"])
    assert leads_to == Asked("https://a/", "GET", {"Accept": "*"})


def test_authentication(ground: Playground, server: str) -> None:
    user = {"url_username": "me", "url_password": "s3cret"}
    assert ground.do("uri", url=f"{server}/private", **user)["status"] == 200
    assert ground.do("uri", url=server.replace("//", "//me:s3cret@") + "/private")["status"] == 200
    said = ground.do("uri", url=server, **user)["json"]["headers"]
    assert "Authorization" not in said
    said = ground.do("uri", url=server, force_basic_auth=True, **user)["json"]["headers"]
    assert said["Authorization"] == BASIC
    with pytest.raises(TaskFailed, match="answered 401") as raised:
        ground.do("uri", url=f"{server}/private", url_username="me", url_password="wrong")
    # registered as of any answer, and the content besides
    assert raised.value.values["status"] == 401
    assert "content" in raised.value.values


def test_nobody_there(ground: Playground) -> None:
    with pytest.raises(TaskFailed) as raised:
        ground.do("uri", url="http://127.0.0.1:1/")
    assert raised.value.values == {"status": -1, "url": "http://127.0.0.1:1/", "redirected": False}


def test_forms(ground: Playground, server: str) -> None:
    form = {"a": "1 2", "b": ["x", "y"], "c": None}
    values = ground.do("uri", url=server, method="POST", body=form, body_format="form-urlencoded")
    assert values["json"]["body"] == "a=1+2&b=x&b=y"
    assert values["json"]["headers"]["Content-Type"] == "application/x-www-form-urlencoded"


def test_an_answer_becomes_a_file(ground: Playground, server: str, tmp_path: Path) -> None:
    values = ground.do("uri", url=f"{server}/a", dest=f"{tmp_path}/got", mode="0600")
    assert json.loads((tmp_path / "got").read_text())["path"] == "/a"
    assert (values["path"], values["mode"], values["changed"]) == (f"{tmp_path}/got", "0600", True)
    assert ground.do("uri", url=f"{server}/b.json", dest=str(tmp_path))["path"] == f"{tmp_path}/b.json"
    assert (
        ground.do("uri", url=f"{server}/", dest=f"{tmp_path}/x", creates=f"{tmp_path}/got")["changed"]
        is False
    )


@pytest.mark.parametrize("path", ["bytes/2001", "endless"])
def test_what_is_too_large_is_never_taken_for_the_whole(
    ground: Playground, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr("klops.actions.net.uri.CONTENT_LIMIT", 2000)
    with pytest.raises(TaskFailed, match="more than") as raised:
        ground.do("uri", url=f"{server}/{path}", return_content=True)
    assert raised.value.code == "output-limit"
    assert len(ground.do("uri", url=f"{server}/bytes/2000", return_content=True)["content"]) == 2000
    # a file may be larger, up to a limit of its own
    values = ground.do("uri", url=f"{server}/{path}", dest=f"{tmp_path}/got")
    assert values["size"] > 2000
    assert "json" not in values
    assert "not registered" in ground.warned[-1]
    monkeypatch.setattr("klops.actions.net.uri.FILE_LIMIT", 2000)
    with pytest.raises(TaskFailed, match="more than"):
        ground.do("uri", url=f"{server}/{path}", dest=f"{tmp_path}/new")
    assert not (tmp_path / "new").exists()


def test_an_answer_that_was_cut_off_is_none(ground: Playground, server: str, tmp_path: Path) -> None:
    with pytest.raises(TaskFailed, match="1 more expected") as raised:
        ground.do("uri", url=f"{server}/cut", dest=f"{tmp_path}/got")
    assert raised.value.code == "no-answer"
    assert not (tmp_path / "got").exists()


@pytest.fixture
def banner() -> Iterator[int]:
    """A server that greets in two pieces, from its second connection on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            for greeting in ([b"starting\n"], [b"SSH-2.0-", b"klops\r\n"]):
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    for piece in greeting:
                        connection.sendall(piece)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]


def test_a_port_that_says_something(ground: Playground, banner: int) -> None:
    values = ground.do(
        "wait_for", port=banner, search_regex=r"^SSH-(\d)\.0-(?P<who>\w+)", sleep=0.01, timeout=10
    )
    assert values["match_groups"] == ["2", "klops"]
    assert values["match_groupdict"] == {"who": "klops"}
    assert (values["state"], values["port"], values["path"]) == ("started", banner, None)


def test_a_file_that_says_something(ground: Playground, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("starting\n")
    threading.Timer(0.2, lambda: log.write_text("starting\nready 7\n")).start()
    values = ground.do("wait_for", path=str(log), search_regex=r"^ready (\d+)$", sleep=0.05, timeout=10)
    assert values["match_groups"] == ["7"]
    assert (values["state"], values["size"], values["changed"]) == ("file", 17, False)


@pytest.mark.parametrize("limit", [10, 4096])
def test_a_file_is_searched_from_where_the_last_look_ended(
    tmp_path: Path, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_for, "OVERLAP", 16)
    log, remote = tmp_path / "log", LocalRemote("h1")
    search = wait_for.Search(re.compile(rb"^ready (\d+)$", re.MULTILINE))

    def look() -> bytes | None:
        while True:
            reply = remote.read([TailRead("t", str(log), search.offset, limit)])["t"]
            match, more = search.take(reply)
            if match or not more:
                return match and match[1]

    assert look() is None
    log.write_text("not ready 7\n" * 5 + "rea")
    assert look() is None
    assert search.offset == log.stat().st_size
    with log.open("a") as more:
        more.write("dy 8\n")
    assert look() == b"8"
    log.write_text("ready 9\n")
    assert look() == b"9"


def test_time_is_up_in_the_words_that_were_asked_for(ground: Playground, tmp_path: Path) -> None:
    with pytest.raises(TaskFailed, match=r"^Timeout when waiting for search string x in /"):
        ground.do("wait_for", path=str(tmp_path), search_regex="x", timeout=0.05, sleep=0.01)
    with pytest.raises(TaskFailed, match=r"^too late$"):
        ground.do("wait_for", path=f"{tmp_path}/none", timeout=0.05, sleep=0.01, msg="too late")


def test_it_just_waits(ground: Playground) -> None:
    began = time.monotonic()
    ground.do("wait_for", timeout=0.1)
    assert time.monotonic() - began >= 0.1
