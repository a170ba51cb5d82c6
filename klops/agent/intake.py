"""Taking in a unit: its specification and secrets come on standard input and go to disk, mode 0600."""

from __future__ import annotations

import json
import os
from typing import Any

from klops.agent import store
from klops.agent.digests import secret_digest
from klops.agent.errors import VerbError

#: Keys of a specification and what each is.
_KEYS: dict[str, Any] = {
    "name": str,
    "argv": list,
    "env": dict,
    "env_script": (str, type(None)),
    "cards": list,
    "visible_env": str,
    "device_dir": str,
    "tp": int,
    "port": int,
    "model": str,
    "health": dict,
    "stop": dict,
    "restart": dict,
    "log": dict,
    "digest": str,
}


def _bad(what: str) -> VerbError:
    return VerbError("bad-spec", what, "klops and the agent are of different versions? run klops up again")


def checked(spec: Any, name: str) -> dict[str, Any]:
    """A specification that can be started. Raises :class:`VerbError`."""
    if not isinstance(spec, dict) or not isinstance(spec.get("schema"), int):
        raise _bad("the specification is no object with a schema number")
    if spec["schema"] > store.SCHEMA:
        raise VerbError(
            "newer-schema",
            f"the specification has schema {spec['schema']}, this agent knows up to {store.SCHEMA}",
            "it was written by a newer klops: run klops up with that one",
        )
    for key, kind in _KEYS.items():
        if key not in spec or not isinstance(spec[key], kind):
            raise _bad(f"the specification of {name} has no proper {key}")
    if spec["name"] != name:
        raise _bad(f"the specification is of {spec['name']}, not of {name}")
    if not spec["argv"] or not all(isinstance(arg, str) and "\0" not in arg for arg in spec["argv"]):
        raise _bad("argv is a list of at least one text")
    texts(spec["env"], "env")
    for card in spec["cards"]:
        if not isinstance(card, dict) or not {"index", "minor", "node"} <= set(card):
            raise _bad("a card has index, minor and node")
    if "timeout" not in spec["stop"]:
        raise _bad("stop.timeout is missing")
    for section in ("health", "stop", "restart", "log"):
        for key, value in spec[section].items():
            if key != "policy" and not isinstance(value, (int, float)):
                raise _bad(f"{section}.{key} is no number")
    return spec


def texts(value: Any, what: str) -> dict[str, str]:
    """Variables: names and texts that an environment can hold."""
    if not isinstance(value, dict):
        raise _bad(f"{what} is no object")
    for name, text in value.items():
        if not name or "=" in name or "\0" in name or not isinstance(text, str) or "\0" in text:
            raise _bad(f"{what}: {name!r} is no variable with a text")
    return value


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
    spec = checked(given.get("spec"), name)
    secrets = texts(given.get("secrets") or {}, "secrets")
    os.umask(0o077)
    paths.make()
    old = store.read_json(paths.secret(name))
    if not secrets:
        store.remove(paths.secret(name))
    elif old is None or old.get("secrets") != secrets:
        salt = os.urandom(16).hex()
        value = {"salt": salt, "digest": secret_digest(salt, secrets), "secrets": secrets}
        store.write_json(paths.secret(name), value)
    if store.read_json(paths.spec(name)) != spec:
        store.write_json(paths.spec(name), spec)
