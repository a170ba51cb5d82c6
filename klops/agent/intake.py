"""Taking in a unit: its specification and secrets come on standard input and go to disk, mode 0600."""

from __future__ import annotations

import json
import os
from typing import Any

from klops.agent import ondisk, specification, store
from klops.agent.digests import secret_digest
from klops.agent.errors import VerbError


def take(paths: store.Paths, name: str, text: str) -> None:
    """Write down what came on standard input; nothing came: what is on disk counts."""
    if not text.strip():
        return
    try:
        given = json.loads(text)
    except ValueError as error:
        raise VerbError("bad-request", f"standard input is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise VerbError("bad-request", "standard input is a JSON object with spec and secrets")
    spec = specification.checked(given.get("spec"), name)
    secrets = specification.texts(given.get("secrets") or {}, "secrets")
    put(paths, name, spec, secrets)


def put(paths: store.Paths, name: str, spec: dict[str, Any], secrets: dict[str, str]) -> None:
    """Write down what differs from what is there."""
    os.umask(0o077)
    paths.make()
    written = ondisk.replaceable(ondisk.spec, paths, name, paths.spec(name))
    old = ondisk.replaceable(ondisk.secret, paths, name, paths.secret(name))
    if not secrets:
        store.remove(paths.secret(name))
    elif old is None or old.get("secrets") != secrets:
        salt = os.urandom(16).hex()
        value = {"salt": salt, "digest": secret_digest(salt, secrets), "secrets": secrets}
        store.write_json(paths.secret(name), value)
    if written != spec:
        store.write_json(paths.spec(name), spec)
