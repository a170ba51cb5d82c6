"""What a specification and secrets have to be. Pure."""

from __future__ import annotations

import math
from typing import Any

from klops.agent import store
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
        if not isinstance(card["index"], int) or not isinstance(card["node"], str):
            raise _bad("a card's index is a number, its node a path")
    if not isinstance(spec.get("smi", ""), str):  # "" or missing: xpu-smi is not to be asked in here
        raise _bad("smi is a program's name or path")
    if not isinstance(spec.get("min_shm", 0), int):  # one of an older klops has none
        raise _bad("min_shm is no number")
    _source(spec.get("source"))
    if "timeout" not in spec["stop"]:
        raise _bad("stop.timeout is missing")
    for section in ("health", "stop", "restart", "log"):
        for key, value in spec[section].items():
            if key != "policy" and not (isinstance(value, (int, float)) and math.isfinite(value)):
                raise _bad(f"{section}.{key} is no number")
    return dict(spec)


def _source(value: Any) -> None:
    """``source``: folders of the release to import from; missing, or null, for a unit that runs on none."""
    if value is None:
        return
    paths = value.get("paths") if isinstance(value, dict) else None
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise _bad("source has a list of paths")
    for path in paths:
        if path.startswith("/") or ".." in path.split("/") or ":" in path or "\0" in path:
            raise _bad(f"source: {path!r} is no folder within a release")


def checked_secret(value: Any) -> dict[str, Any]:
    """What a unit's file of secrets holds. Raises :class:`VerbError`, which repeats nothing of it."""
    if not isinstance(value.get("salt"), str) or not isinstance(value.get("digest"), str):
        raise _bad("the secrets have no salt and digest")
    texts(value.get("secrets"), "secrets")
    return dict(value)


def texts(value: Any, what: str) -> dict[str, str]:
    """Variables: names and texts that an environment can hold."""
    if not isinstance(value, dict):
        raise _bad(f"{what} is no object")
    for name, text in value.items():
        if not name or "=" in name or "\0" in name or not isinstance(text, str) or "\0" in text:
            raise _bad(f"{what}: {name!r} is no variable with a text")
    return value
