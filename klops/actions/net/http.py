"""HTTP and HTTPS over a connection that a remote opens: the host's view of the net, TLS on this side."""

from __future__ import annotations

import base64
import http.client
import io
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from klops.errors import TaskFailed
from klops.remote.base import Stream

#: bytes of the largest answer that is taken into a result
CONTENT_LIMIT = 8 * 1024 * 1024
#: bytes of the largest answer that becomes a file
FILE_LIMIT = 1024 * 1024 * 1024
#: redirects that are followed before it is taken for a circle
REDIRECTS = 10
_PIECE = 64 * 1024
#: headers that are about the body, and go with it
_OF_THE_BODY = ("content-length", "content-type", "transfer-encoding")
#: headers that another server has no business to see
_CONFIDENTIAL = ("authorization", "cookie")


@dataclass(frozen=True)
class Asked:
    """One request. ``headers`` by name as written; ``user`` is sent when the server wants one (Basic)."""

    url: str
    method: str
    headers: Mapping[str, str]
    body: bytes | None = None
    user: tuple[str, str] | None = None

    @property
    def parts(self) -> SplitResult:
        """The URL in its parts."""
        return urlsplit(self.url)

    @property
    def server(self) -> tuple[str, str, int]:
        """Scheme, host and port."""
        port = self.parts.port or (443 if self.parts.scheme == "https" else 80)
        return self.parts.scheme, self.parts.hostname or "", port


@dataclass(frozen=True)
class Answer:
    """What came back; ``url`` is where it came from in the end."""

    url: str
    status: int
    reason: str
    headers: Sequence[tuple[str, str]]
    content: bytes

    def header(self, name: str) -> str:
        """A header's value, "" when there is none."""
        return next((value for key, value in self.headers if key.lower() == name), "")


#: Opens a connection from the host to a name and port. Raises ``OSError``.
Connect = Callable[[str, int], Stream]


class TlsStream:
    """TLS over any stream, as ``http.client`` wants a socket to be. Raises :class:`ssl.SSLError`."""

    def __init__(self, stream: Stream, context: ssl.SSLContext, name: str) -> None:
        self._stream = stream
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=name)
        self._carried(self._tls.do_handshake)

    def _carried(self, work: Callable[[], int | bytes | None]) -> int | bytes | None:
        """Do it, with as many turns of the stream as it needs."""
        while True:
            try:
                done = work()
            except ssl.SSLWantReadError:
                self._flush()
                data = self._stream.recv(_PIECE)
                if data:
                    self._in.write(data)
                else:
                    self._in.write_eof()
                continue
            self._flush()
            return done

    def _flush(self) -> None:
        if self._out.pending:
            self._stream.sendall(self._out.read())

    def sendall(self, data: bytes, /) -> None:
        """Send all of it."""
        view = memoryview(data)
        while view:
            sent = self._carried(lambda view=view: self._tls.write(view))  # type: ignore[misc]  # bound here
            view = view[int(sent or 0) :]

    def recv(self, size: int, /) -> bytes:
        """At most ``size`` bytes; none at the end. A server that hangs up without a word has ended, too."""
        try:
            return bytes(self._carried(lambda: self._tls.read(size)) or b"")
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    def settimeout(self, seconds: float | None, /) -> None:
        """Of each turn of the stream below."""
        self._stream.settimeout(seconds)

    def makefile(self, mode: str, buffering: int = -1, /) -> io.BufferedReader:
        """A reader."""
        return io.BufferedReader(_Raw(self))

    def close(self) -> None:
        """Close the stream below."""
        self._stream.close()


class _Raw(io.RawIOBase):
    def __init__(self, stream: TlsStream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # what BufferedReader gives
        data = self._stream.recv(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _KeptOpen:
    """A stream that http.client can't close.

    It does that as soon as it knows that an answer is the last one, which a socket outlives while somebody
    reads from it; a forwarded channel doesn't, and the body that is still on its way would be lost.
    """

    def __init__(self, stream: Stream | TlsStream) -> None:
        self.sendall, self.makefile = stream.sendall, stream.makefile

    def close(self) -> None:
        """Nothing: who opened the stream closes it."""


def tls_context(*, validate: bool, authority: str | None) -> ssl.SSLContext:
    """How a server's certificate is judged.

    ``authority``: PEM text of who signed it, instead of this machine's own list.
    """
    context = ssl.create_default_context(cadata=authority)
    if not validate:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def credentials(url: str) -> tuple[str, tuple[str, str] | None]:
    """A URL without the user that may stand in it, and that user with the password."""
    parts = urlsplit(url)
    if parts.username is None:
        return url, None
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return bare, (unquote(parts.username), unquote(parts.password or ""))


def basic(user: tuple[str, str]) -> dict[str, str]:
    """The header of Basic authentication."""
    return {"Authorization": "Basic " + base64.b64encode(":".join(user).encode()).decode("ascii")}


def redirected(asked: Asked, answer: Answer, follow: str, confined: Sequence[str]) -> Asked | None:
    """The request that a redirect leads to, or None when it is not followed.

    ``follow``: none; safe (only what GET or HEAD asked for); all; urllib2 (as Python's own). ``confined`` are
    headers for the first server only.
    """
    location = answer.header("location")
    if answer.status not in (301, 302, 303, 307, 308) or not location or follow == "none":
        return None
    reading = asked.method in ("GET", "HEAD")
    if not reading and (follow == "safe" or (follow == "urllib2" and answer.status in (307, 308))):
        return None
    new = replace(asked, url=urljoin(asked.url, location))
    if new.parts.scheme not in ("http", "https") or not new.parts.hostname:
        raise TaskFailed(f"{asked.url} leads to {location}, which is no web address", code="redirect")
    gone = {name.lower() for name in confined}
    if new.server != asked.server:
        gone.update(_CONFIDENTIAL)
        new = replace(new, user=None)
    becomes_get = answer.status == 303 or (answer.status in (301, 302) and not reading)
    if becomes_get and asked.method != "HEAD":
        gone.update(_OF_THE_BODY)
        new = replace(new, method="GET", body=None)
    kept = {key: value for key, value in new.headers.items() if key.lower() not in gone}
    return replace(new, headers=kept)


def ask(
    asked: Asked,
    connect: Connect,
    context: Callable[[], ssl.SSLContext],
    timeout: float,
    follow: str = "safe",
    confined: Sequence[str] = (),
    limit: int = CONTENT_LIMIT,
) -> Answer:
    """Send the request, and those that it leads to.

    ``timeout`` in seconds of each turn of a connection, ``limit`` in bytes of an answer. Raises ``OSError``,
    ``ValueError`` (what HTTP has no place for), :class:`http.client.HTTPException` (an answer that was cut
    off among it) and :class:`TaskFailed` (redirects in a circle, an answer beyond the limit).
    """
    for _ in range(REDIRECTS + 1):
        answer = _once(asked, connect, context, timeout, limit)
        if answer.status == 401 and asked.user and "basic" in answer.header("www-authenticate").lower():
            asked = replace(asked, headers={**asked.headers, **basic(asked.user)}, user=None)
            continue
        leads_to = redirected(asked, answer, follow, confined)
        if leads_to is None:
            return answer
        asked = leads_to
    raise TaskFailed(f"{asked.url}: more than {REDIRECTS} redirects", code="redirect")


def _once(
    asked: Asked, connect: Connect, context: Callable[[], ssl.SSLContext], timeout: float, limit: int
) -> Answer:
    scheme, host, port = asked.server
    target = (asked.parts.path or "/") + (f"?{asked.parts.query}" if asked.parts.query else "")
    default = port == (443 if scheme == "https" else 80)
    connection = http.client.HTTPConnection(host, 80 if default else port, timeout=timeout)
    stream = connect(host, port)
    try:
        stream.settimeout(timeout)
        # what http.client needs of a socket is what a Stream has
        connection.sock = _KeptOpen(TlsStream(stream, context(), host) if scheme == "https" else stream)
        connection.request(asked.method, target, body=asked.body, headers=dict(asked.headers))
        with connection.getresponse() as got:
            content = _content(asked, got, limit)
        return Answer(asked.url, got.status, got.reason, got.getheaders(), content)
    finally:
        connection.close()
        stream.close()


def _content(asked: Asked, got: http.client.HTTPResponse, limit: int) -> bytes:
    """The whole body. Raises :class:`TaskFailed` when it is larger, ``IncompleteRead`` when it is cut off."""
    pieces: list[bytes] = []
    size = 0
    while size <= limit and (got.length or 0) <= limit and (piece := got.read(_PIECE)):
        pieces.append(piece)
        size += len(piece)
    if size > limit or (got.length or 0) > limit:
        raise TaskFailed(
            f"{asked.url} answers with more than {limit >> 20} MiB",
            hint=f"dest keeps up to {FILE_LIMIT >> 20} MiB as a file; larger ones: command with curl",
            code="output-limit",
        )
    content = b"".join(pieces)
    if got.length:
        # what the server announced didn't come: the end of the connection is no end of the answer
        raise http.client.IncompleteRead(content, got.length)
    return content
