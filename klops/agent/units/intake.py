"""Taking in a unit: its specification and secrets come on standard input and go to disk, mode 0600."""

from __future__ import annotations

import os
from typing import Any, Mapping

from klops.agent import store
from klops.agent.digests import secret_digest
from klops.agent.errors import VerbError
from klops.agent.units import ondisk, specification


def take(
    paths: store.Paths, name: str, given: Mapping[str, Any], *, keep_secrets: bool = False
) -> dict[str, Any]:
    """Write down the ``spec`` and ``secrets`` that were given; ``keep_secrets``: those on disk stay.

    Returns what came of the cards' memory: MiB in use by PCI address.
    """
    spec = specification.checked(given.get("spec"), name)
    secrets = None if keep_secrets else specification.texts(given.get("secrets") or {}, "secrets")
    put(paths, name, spec, secrets)
    idle = given.get("idle") or {}
    if not isinstance(idle, dict) or not all(type(used) is int for used in idle.values()):
        raise VerbError("bad-request", "idle is an object of whole numbers")
    return idle


def put(paths: store.Paths, name: str, spec: dict[str, Any], secrets: dict[str, str] | None) -> None:
    """Write down what differs from what is there. ``secrets``: None to leave them alone."""
    os.umask(0o077)
    paths.make()
    written = ondisk.replaceable(ondisk.spec, paths, name, paths.spec(name))
    if secrets is not None:
        _put_secrets(paths, name, secrets)
    if written != spec:
        store.write_json(paths.spec(name), spec)


def _put_secrets(paths: store.Paths, name: str, secrets: dict[str, str]) -> None:
    old = ondisk.replaceable(ondisk.secret, paths, name, paths.secret(name))
    if not secrets:
        store.remove(paths.secret(name))
    elif old is None or old.get("secrets") != secrets:
        salt = os.urandom(16).hex()
        value = {"salt": salt, "digest": secret_digest(salt, secrets), "secrets": secrets}
        store.write_json(paths.secret(name), value)
