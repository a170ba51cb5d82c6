"""``uri``: one HTTP request from the host's point of view.

.. code-block:: yaml

    - uri: {url: "http://127.0.0.1:8000/v1/models", headers: {Authorization: "Bearer {{ key }}"}}
      register: models
    - uri: {url: "https://hub.local/v2/", url_username: me, url_password: "{{ pw }}", ca_path: /etc/ca.pem}
"""

from __future__ import annotations

import functools
import http.client
import json
import posixpath
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any, ClassVar, Literal
from urllib.parse import urlencode, urljoin, urlsplit

from pydantic import AliasChoices, Field, field_validator, model_validator

from klops.actions.ansibletexts import SKIPPED_SINCE
from klops.actions.base import Action, Change, Context, Plan, Probe, Seen, Step, View
from klops.actions.files.attributes import look
from klops.actions.files.content import absolute
from klops.actions.files.ownership import NEW_FILE_MODE, REFUSED, Owned, bits, numbers, reads
from klops.actions.net.http import (
    CONTENT_LIMIT,
    FILE_LIMIT,
    Answer,
    Asked,
    ask,
    basic,
    credentials,
    tls_context,
)
from klops.actions.steps import SetOwner, WriteFile
from klops.actions.touched import Touched
from klops.errors import TaskFailed
from klops.remote.reads import FileRead, PathRead, Read

_FOLLOW = {"no": "none", "false": "none", "yes": "all", "true": "all"}


class UriParams(Owned):
    """As Ansible's; ``timeout`` in seconds. ``dest``, ``creates``, ``removes``, ``ca_path``: on the host."""

    url: str
    method: str = "GET"
    headers: dict[str, str] = Field(default_factory=dict)
    body: Any = None
    body_format: Literal["raw", "json", "form-urlencoded"] = "raw"
    status_code: tuple[int, ...] = (200,)
    return_content: bool = False
    timeout: float = Field(default=30, gt=0)
    follow_redirects: Literal["safe", "none", "all", "urllib2"] = "safe"
    unredirected_headers: tuple[str, ...] = ()
    url_username: str | None = Field(default=None, validation_alias=AliasChoices("url_username", "user"))
    url_password: str | None = Field(default=None, validation_alias=AliasChoices("url_password", "password"))
    force_basic_auth: bool = False
    force: bool = False
    http_agent: str = "klops"
    validate_certs: bool = True
    ca_path: str | None = None
    dest: str | None = None
    creates: str | None = None
    removes: str | None = None
    use_proxy: bool = False
    use_netrc: bool = False

    @field_validator("url")
    @classmethod
    def _web_address(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{credentials(url)[0]!r} is not a URL that begins with http:// or https://")
        _ = parts.port  # a wrong port raises here
        return url

    @field_validator("status_code", mode="before")
    @classmethod
    def _one_or_more(cls, value: Any) -> Any:
        if isinstance(value, str):
            return [one.strip() for one in value.split(",")]
        return value if isinstance(value, (list, tuple)) else [value]

    @field_validator("follow_redirects", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        return _FOLLOW.get(str(value).lower(), value)

    @field_validator("use_proxy", "use_netrc")
    @classmethod
    def _directly(cls, value: bool) -> bool:
        if value:
            raise ValueError("klops asks from the host directly, without proxies and .netrc: leave it out")
        return value

    @field_validator("dest", "creates", "removes", "ca_path")
    @classmethod
    def _absolute(cls, path: str | None) -> str | None:
        return path if path is None else absolute(path)

    @model_validator(mode="after")
    def _for_a_file(self) -> UriParams:
        if self.dest is None and (self.mode, self.owner, self.group) != (None, None, None):
            raise ValueError("mode, owner and group are those of dest, which is missing")
        return self

    @property
    def address(self) -> str:
        """The URL without user and password."""
        return credentials(self.url)[0]


@dataclass(frozen=True)
class Request(Step):
    """Send the request, check the status. As in Ansible it counts as ok, whatever the method.

    ``authority``: PEM text of the host's ``ca_path``.
    """

    params: UriParams
    authority: str | None = None
    changes: ClassVar[bool] = False

    def change(self) -> Change:
        """``GET URL``."""
        return Change(f"{self.params.method.upper()} {self.params.address}")

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Over a connection opened from the host."""
        return self._asked(ctx)[0]

    def _asked(self, ctx: Context) -> tuple[dict[str, Any], Answer]:
        params = self.params
        began = time.monotonic()
        answer = _ask(ctx, params, self.authority)
        result: dict[str, Any] = {
            **_headers(answer),
            "url": answer.url,
            "redirected": answer.url != params.address,
            "status": answer.status,
            "elapsed": int(time.monotonic() - began),
            "msg": f"{answer.reason} ({answer.header('content-length') or 'unknown'} bytes)",
        }
        large = len(answer.content) > CONTENT_LIMIT
        text = "" if large else answer.content.decode("utf-8", "replace")
        if params.return_content:
            result["content"] = text
        if large and (params.return_content or _is_json(answer.header("content-type"))):
            limit = f"{CONTENT_LIMIT >> 20} MiB"
            ctx.warn(f"{params.address}: an answer of more than {limit} is in the file alone, not registered")
        elif _is_json(answer.header("content-type")):
            try:
                result["json"] = json.loads(text)
            except ValueError:
                ctx.warn(f"{params.address} says that it answers JSON, and doesn't")
        if answer.status not in params.status_code:
            wanted = " or ".join(map(str, params.status_code))
            start = f": {text[:200]}" if text else ""
            raise TaskFailed(
                f"{params.address} answered {answer.status} {answer.reason}, not {wanted}{start}",
                code="http-status",
                values={**{name: value for name, value in result.items() if name != "msg"}, "content": text},
            )
        return result, answer


@dataclass(frozen=True)
class Download(Request):
    """A request whose answer becomes a file of the host; ``owner``: user and group id, None for any."""

    owner: tuple[int | None, int | None] = (None, None)
    changes: ClassVar[bool] = True

    def touches(self) -> tuple[Touched, ...]:
        """The file, or one in the folder."""
        return (Touched(self.params.dest or "", below=True),)

    def change(self) -> Change:
        """``GET URL, into PATH``."""
        return Change(f"{super().change().what}, into {self.params.dest}")

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """The request, then the file."""
        result, answer = self._asked(ctx)
        path = self.params.dest or ""
        there = look(ctx.remote, path)
        if there.is_dir:
            name = posixpath.basename(urlsplit(answer.url).path) or "index.html"
            path = posixpath.join(path, name)
            there = look(ctx.remote, path)
        entry = there.target if there.target and there.target.type == "file" else None
        mode = bits(self.params.mode, entry, is_dir=False)
        if mode is None:
            mode = entry.mode if entry else NEW_FILE_MODE
        uid, gid = self.owner
        if entry is not None:
            uid, gid = entry.uid if uid is None else uid, entry.gid if gid is None else gid
        values = WriteFile(path, answer.content, mode, owner=(uid, gid)).carry_out(ctx) or {}
        if any(
            wanted not in (None, values.get(key))
            for wanted, key in zip(self.owner, ("uid", "gid"), strict=True)
        ):
            # it says why not
            SetOwner(path, *self.owner).carry_out(ctx)
        return {**result, **values, "path": path}


class Uri(Action[UriParams]):
    """One HTTP request."""

    name = "uri"
    params = UriParams
    refused: ClassVar[Mapping[str, str]] = {
        **REFUSED,
        "src": "klops sends what body says: body: \"{{ lookup('file', ...) }}\"",
        "remote_src": "klops sends what body says, no file of the host: use command: curl",
        "client_cert": "klops shows no certificates of its own: use command: curl",
        "client_key": "klops shows no certificates of its own: use command: curl",
        "ciphers": "the ciphers are those of this machine's OpenSSL",
        "decompress": "klops never asks for compressed answers: leave it out",
        "unix_socket": "a remote connects to TCP ports: use command: curl --unix-socket",
        "use_gssapi": "klops has no Kerberos: use url_username, or headers with a token",
    }

    def probe(self, params: UriParams, view: View) -> Probe:
        """What decides whether it is sent; a request itself is no read."""
        asked: list[Read] = list(reads(params))
        for key in ("creates", "removes"):
            path = getattr(params, key)
            if path is not None:
                asked.append(PathRead(key, (path,)))
        if params.ca_path is not None:
            asked.append(FileRead("authority", params.ca_path))
        return Probe(tuple(asked))

    def plan(self, params: UriParams, view: View, seen: Seen) -> Plan:
        """The request."""
        for key, there, text in (("creates", True, "exists"), ("removes", False, "does not exist")):
            path = getattr(params, key)
            if path is not None and bool(seen.replies[key].stdout) == there:
                return Plan(result={"stdout": f"{SKIPPED_SINCE}'{path}' {text}"})
        authority = None
        if params.ca_path is not None:
            if not seen.replies["authority"].ok:
                raise TaskFailed(f"{params.ca_path} can't be read on the host", code="absent")
            authority = seen.replies["authority"].text
        step: Request = Request(params, authority)
        if params.dest is not None:
            step = Download(params, authority, numbers(params, seen))
        unknown = f"what {params.address} answers only shows when it is asked"
        return Plan((step,), result={"url": params.address}, unknown=unknown)


def _ask(ctx: Context, params: UriParams, authority: str | None) -> Answer:
    # as Ansible registers it
    unanswered = {"status": -1, "url": params.address, "redirected": False}
    try:
        return ask(
            _request(params),
            lambda host, port: ctx.remote.connect(host, port, timeout=params.timeout),
            functools.partial(tls_context, validate=params.validate_certs, authority=authority),
            params.timeout,
            params.follow_redirects,
            params.unredirected_headers,
            CONTENT_LIMIT if params.dest is None else FILE_LIMIT,
        )
    except ssl.SSLCertVerificationError as error:
        raise TaskFailed(
            f"{params.address}: the certificate is not trusted: {error.verify_message}",
            hint="ca_path names the PEM file (on the host) of who signed it",
            code="certificate",
            values=unanswered,
        ) from error
    except (OSError, http.client.HTTPException) as error:
        detail = str(error) or type(error).__name__
        hint = "see that the service runs and listens there"
        text = f"{params.method} {params.address}: {detail}"
        raise TaskFailed(text, hint=hint, code="no-answer", values=unanswered) from error
    except ValueError:
        # without the chain: the text of http.client repeats the value, and that may be a secret
        raise TaskFailed(
            "the request can't be sent: its method, URL or headers hold what HTTP has no place for",
            hint="no line breaks (a key read from a file ends in one: | trim); the URL in ASCII",
            code="request",
        ) from None


def _request(params: UriParams) -> Asked:
    url, user = credentials(params.url)
    if params.url_username is not None:
        user = (params.url_username, params.url_password or "")
    body, kind = _body(params)
    given = {key.lower() for key in params.headers}
    headers = dict(params.headers)
    defaults = {"User-Agent": params.http_agent}
    if kind:
        defaults["Content-Type"] = kind
    if params.force:
        defaults["Cache-Control"] = "no-cache"
    if user is not None and params.force_basic_auth:
        defaults |= basic(user)
    headers |= {key: value for key, value in defaults.items() if key.lower() not in given}
    return Asked(url, params.method.upper(), headers, body, None if params.force_basic_auth else user)


def _body(params: UriParams) -> tuple[bytes | None, str]:
    """The body and its type, "" where nothing says what it is."""
    body = params.body
    if body is None:
        return None, ""
    if params.body_format == "json":
        return (body if isinstance(body, str) else json.dumps(body)).encode(), "application/json"
    if params.body_format == "form-urlencoded":
        text = body if isinstance(body, str) else urlencode(list(_fields(body)))
        return text.encode(), "application/x-www-form-urlencoded"
    return str(body).encode(), ""


def _fields(body: Any) -> Iterator[tuple[str, str]]:
    """Names and values of a form, from a mapping or pairs; a list is a field given several times."""
    for key, values in body.items() if isinstance(body, Mapping) else body:
        several = isinstance(values, Sequence) and not isinstance(values, str)
        for value in values if several else [values]:
            if value is not None:
                yield str(key), str(value)


def _headers(answer: Answer) -> dict[str, Any]:
    """Headers as Ansible registers them: small letters, underscores; cookies besides."""
    found: dict[str, Any] = {}
    for key, value in answer.headers:
        name = key.lower().replace("-", "_")
        found[name] = f"{found[name]}, {value}" if name in found else value
    if "location" in found:
        found["location"] = urljoin(answer.url, found["location"])
    cookies: SimpleCookie = SimpleCookie()
    for key, value in answer.headers:
        if key.lower() == "set-cookie":
            try:
                cookies.load(value)
            except CookieError:
                continue
    pairs = {name: morsel.value for name, morsel in cookies.items()}
    text = "; ".join(f"{name}={value}" for name, value in pairs.items())
    return {**found, "cookies": pairs, "cookies_string": text}


def _is_json(content_type: str) -> bool:
    kind = content_type.split(";")[0].strip().lower()
    return kind.rpartition("/")[2].rpartition("+")[2] in ("json", "javascript")
