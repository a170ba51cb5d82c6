"""The verbs of packages: their requests read, and what they say printed."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import Any, Callable, Mapping

from klops.agent.errors import VerbError
from klops.agent.packages import install, names, patching
from klops.agent.packages import look as looking
from klops.agent.packages import restore as restoring
from klops.agent.packages.install import Way
from klops.agent.packages.places import Places
from klops.agent.packages.uv import Asked, Source

#: Seconds for uv, and for the test of a patch, when the request has no other.
_TIMEOUT = 1800.0
_TEST_TIMEOUT = 300.0

Tell = Callable[[Mapping[str, Any]], bool]


def packages(root: str, wanted: str, files: str) -> dict[str, Any]:
    """See :func:`klops.agent.packages.look.packages`; both are JSON lists of names."""
    return looking.packages(Places(root), _names(wanted, "--names"), _names(files, "--files"))


def _names(text: str, option: str) -> list[str]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise VerbError("usage", f"{option} takes a JSON list of names")
    return value


def change(verb: str, root: str, text: str, tell: Tell, gone: Callable[[float], bool]) -> bool:
    """One of ``stack``, ``restore``, ``patch``: lines ``{"line": text}``, then ``{"done": {...}}``.

    Whether somebody read the last one. Raises :class:`VerbError`.
    """
    places, way = Places(root), Way(lambda line: _say(tell, line), gone)
    try:
        request = json.loads(text)
        asked = _READ[verb](request)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise VerbError(
            "bad-request", f"{verb}: {type(error).__name__}: {error}", "use the same klops"
        ) from error
    if isinstance(asked, install.Request):
        done = install.stack(places, asked, way)
    elif isinstance(asked, restoring.Request):
        done = restoring.restore(places, asked)
    else:
        done = patching.patch(places, asked, way)
    return tell({"done": done})


def _say(tell: Tell, line: str) -> None:
    tell({"line": line})


def _stack(request: Mapping[str, Any]) -> install.Request:
    asked = [
        Asked(
            names.normal(one["name"]),
            str(one["version"]),
            bool(one.get("no_deps", False)),
            bool(one.get("check_filename", True)),
        )
        for one in request["install"]
    ]
    index, wheels = request.get("index_url"), request.get("wheel_dir")
    source = Source(index or None, wheels or None, tuple(map(str, request.get("options", []))))
    timeout = float(request.get("timeout") or _TIMEOUT)
    return install.Request(tuple(asked), source, timeout, str(request.get("run", "")))


def _restore(request: Mapping[str, Any]) -> restoring.Request:
    return restoring.Request(
        {
            name: None if was is None else {"version": str(was["version"]), "record": was["record"]}
            for name, was in request["distributions"].items()
        },
        {file: str(one["sha256"]) for file, one in request["patches"].items()},
        str(request.get("run", "")),
    )


def _patch(request: Mapping[str, Any]) -> patching.Request:
    revert, kind = bool(request.get("revert", False)), str(request.get("kind", "copy"))
    try:
        data = base64.b64decode(request.get("data") or "", validate=True)
    except binascii.Error as error:
        raise VerbError("bad-request", f"patch: data: {error}", "use the same klops") from error
    digest = hashlib.sha256(data).hexdigest()
    if kind not in ("copy", "diff") or (not revert and request["digest"] != digest):
        raise VerbError("bad-request", f"patch: a {kind} of sha256 {digest}", "use the same klops")
    test = request.get("test")
    timeout = float(request.get("timeout") or _TEST_TIMEOUT)
    run = str(request.get("run", ""))
    return patching.Request(str(request["file"]), kind, data, digest, test or None, timeout, revert, run)


_READ: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "stack": _stack,
    "restore": _restore,
    "patch": _patch,
}
