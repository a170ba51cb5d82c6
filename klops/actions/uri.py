"""``uri``: one HTTP request from the host's point of view.

.. code-block:: yaml

    - uri: {url: "http://127.0.0.1:8000/v1/models", headers: {Authorization: "Bearer {{ key }}"}}
      register: models
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from klops.actions.base import Action, Change, Context, Params, Plan, Probe, Seen, Step, View
from klops.errors import TaskFailed

#: bytes of an answer that are kept
CONTENT_LIMIT = 8 * 1024 * 1024


class UriParams(Params):
    """As Ansible's; ``timeout`` in seconds. Redirects are not followed: their status is the answer."""

    url: str
    method: str = "GET"
    headers: dict[str, str] = Field(default_factory=dict)
    body: Any = None
    body_format: Literal["raw", "json"] = "raw"
    status_code: tuple[int, ...] = (200,)
    return_content: bool = False
    timeout: float = Field(default=30, gt=0)

    @field_validator("url")
    @classmethod
    def _plain_http(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme == "https":
            raise ValueError("https is not supported yet: ask a plain http port on the host itself")
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(f"{url!r} is not a URL that begins with http://")
        _ = parts.port  # a wrong port raises here
        return url

    @field_validator("status_code", mode="before")
    @classmethod
    def _one_or_more(cls, value: Any) -> Any:
        return value if isinstance(value, (list, tuple)) else [value]


@dataclass(frozen=True)
class Request(Step):
    """Send the request, check the status. As in Ansible it counts as ok, whatever the method."""

    params: UriParams
    changes: ClassVar[bool] = False

    def change(self) -> Change:
        """``GET URL``."""
        return Change(f"{self.params.method} {self.params.url}")

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Over a connection opened from the host."""
        params = self.params
        began = time.monotonic()
        status, reason, headers, content = _ask(ctx, params)
        result: dict[str, Any] = {
            "url": params.url,
            "status": status,
            "elapsed": int(time.monotonic() - began),
            "msg": reason,
            **{key.lower().replace("-", "_"): value for key, value in headers},
        }
        text = content.decode("utf-8", "replace")
        if params.return_content:
            result["content"] = text
        if result.get("content_type", "").split(";")[0].strip().endswith("json"):
            try:
                result["json"] = json.loads(text)
            except ValueError:
                ctx.warn(f"{params.url} says that it answers JSON, and doesn't")
        if status not in params.status_code:
            wanted = " or ".join(map(str, params.status_code))
            start = f": {text[:200]}" if text else ""
            raise TaskFailed(
                f"{params.url} answered {status} {reason}, not {wanted}{start}", code="http-status"
            )
        return result


class Uri(Action[UriParams]):
    """One HTTP request."""

    name = "uri"
    params = UriParams

    def probe(self, params: UriParams, view: View) -> Probe:
        """Nothing: a request is no read."""
        return Probe()

    def plan(self, params: UriParams, view: View, seen: Seen) -> Plan:
        """The request."""
        unknown = f"what {params.url} answers only shows when it is asked"
        return Plan((Request(params),), result={"url": params.url}, unknown=unknown)


def _ask(ctx: Context, params: UriParams) -> tuple[int, str, list[tuple[str, str]], bytes]:
    parts = urlsplit(params.url)
    host, port = parts.hostname or "", parts.port or 80
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    body, headers = _body(params)
    connection = http.client.HTTPConnection(host, port, timeout=params.timeout)
    try:
        stream = ctx.remote.connect(host, port, timeout=params.timeout)
        stream.settimeout(params.timeout)
        connection.sock = stream  # what http.client needs of a socket is what a Stream has
        connection.request(params.method.upper(), target, body=body, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.reason, answer.getheaders(), answer.read(CONTENT_LIMIT)
    except (OSError, http.client.HTTPException) as error:
        detail = str(error) or type(error).__name__
        hint = "see that the service runs and listens there"
        raise TaskFailed(f"{params.method} {params.url}: {detail}", hint=hint, code="no-answer") from error
    except ValueError:
        # without the chain: the text of http.client repeats the value, and that may be a secret
        raise TaskFailed(
            "the request can't be sent: its method, URL or headers hold what HTTP has no place for",
            hint="no line breaks (a key read from a file ends in one: | trim); the URL in ASCII",
            code="request",
        ) from None
    finally:
        connection.close()


def _body(params: UriParams) -> tuple[bytes | None, dict[str, str]]:
    headers = dict(params.headers)
    if params.body is None:
        return None, headers
    if params.body_format == "json":
        if not any(key.lower() == "content-type" for key in headers):
            headers["Content-Type"] = "application/json"
        body = params.body
        return (body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)).encode(), headers
    return str(params.body).encode(), headers
