"""The units that are wanted, kept as they are now: what is gone back to when a new container doesn't do.

One file, written beside and renamed: all of it is kept, or what was kept before still is. What the units run
on (see :mod:`klops.agent.verbs.codeback`) is kept with them.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.supervision import control
from klops.agent.units import intake, ondisk, specification


def keep(paths: store.Paths, names: list[str], code: Mapping[str, Any]) -> dict[str, Any]:
    """Keep specifications and secrets, and ``code``, what they run on.

    Raises :class:`VerbError`, keeping nothing, when one can't be read.
    """
    units = {}
    for name in sorted(names):
        spec = ondisk.spec(paths, name)
        if spec is None:
            raise VerbError(
                "no-spec",
                f"unit {name} is wanted, but its specification {paths.spec(name)} is missing",
                "klops restart writes it anew",
            )
        units[name] = {"spec": spec, "secret": ondisk.secret(paths, name)}
    store.write_json(paths.kept, {"units": units, "code": dict(code)})
    return {"units": list(units)}


def bring_back(paths: store.Paths, put_back: Callable[[Mapping[str, Any]], None]) -> dict[str, Any]:
    """Have all units run that were kept, with what was kept. One that does is left alone.

    ``put_back`` is given the ``code`` that was kept: they are to run on that. All are tried; then the first
    that was refused is raised as :class:`VerbError`.
    """
    kept, code = _kept(paths)
    found: dict[str, Any] = {}
    failures = []
    try:
        put_back(code)
    except VerbError as failure:
        failures.append(failure)
    for name, (spec, secrets) in kept.items():
        try:
            intake.put(paths, name, spec, secrets)
            found[name] = control.insist(paths.run, {"verb": "start", "name": name})["unit"]
        except VerbError as failure:
            failures.append(VerbError(failure.code, f"{name}: {failure.message}", failure.hint))
    if failures:
        raise failures[0]
    return {"units": found}


def forget(paths: store.Paths) -> dict[str, Any]:
    """What was kept isn't needed any more."""
    store.remove(paths.kept)
    return {}


def needed_releases(paths: store.Paths) -> set[str]:
    """The release that kept units ran on: it is not to be pruned."""
    try:
        release = ((store.read_json(paths.kept) or {}).get("code") or {}).get("release")
    except (VerbError, AttributeError):
        return set()  # who brings them back is told of the damage
    return {str(release)} if release else set()


def _kept(paths: store.Paths) -> tuple[dict[str, tuple[dict[str, Any], dict[str, str]]], dict[str, Any]]:
    """Specification and secrets by unit, and what they run on."""
    hint = "klops up starts the services with the settings of now"
    try:
        value = store.read_json(paths.kept)
        if value is not None:
            return {name: _checked(name, one) for name, one in value["units"].items()}, dict(value["code"])
    except VerbError as failure:
        raise VerbError(failure.code, failure.message, hint) from failure
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise VerbError(ondisk.DAMAGED, f"{paths.kept} says nothing of units: {error}", hint) from error
    raise VerbError("nothing-kept", f"there is no {paths.kept}: no units were kept", hint)


def _checked(name: str, one: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    spec = specification.checked(one["spec"], store.check_name(name))
    return spec, specification.checked_secret(one["secret"])["secrets"] if one["secret"] else {}
