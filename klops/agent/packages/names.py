"""Names and versions of distributions as the packaging standards compare them. Pure."""

from __future__ import annotations

import re

_RUNS = re.compile(r"[-_.]+")
_VERSION = re.compile(
    r"v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<stage>alpha|beta|preview|pre|rc|a|b|c)[-_.]?(?P<stage_number>\d*))?"
    r"(?P<post>-(?P<bare_post>\d+)|[-_.]?(?:post|rev|r)[-_.]?(?P<post_number>\d*))?"
    r"(?P<dev>[-_.]?dev[-_.]?(?P<dev_number>\d*))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?"
)
_STAGES = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}


def normal(name: str) -> str:
    """The one spelling of a distribution's name (PEP 503)."""
    return _RUNS.sub("-", name).lower()


def canonical(version: str) -> str:
    """The one spelling of a version (PEP 440), its local part included.

    A version that the standard doesn't know comes back in lower case: it equals only itself.
    """
    text = version.strip().lower()
    found = _VERSION.fullmatch(text)
    if found is None:
        return text
    part = found.groupdict()
    epoch = int(part["epoch"] or 0)
    release = [int(number) for number in part["release"].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    made = (f"{epoch}!" if epoch else "") + ".".join(map(str, release))
    if part["stage"]:
        made += _STAGES.get(part["stage"], part["stage"]) + str(int(part["stage_number"] or 0))
    if part["post"]:
        made += f".post{int(part['bare_post'] or part['post_number'] or 0)}"
    if part["dev"]:
        made += f".dev{int(part['dev_number'] or 0)}"
    if part["local"]:
        local = re.split(r"[-_.]", part["local"])
        made += "+" + ".".join(str(int(one)) if one.isdecimal() else one for one in local)
    return made


def same(one: str, other: str) -> bool:
    """Whether two texts mean the same version: ``1.0`` and ``1.0.0`` do, ``1.0`` and ``1.0+cu128`` don't."""
    return canonical(one) == canonical(other)


def public(version: str) -> str:
    """A version without its local part (what follows ``+``)."""
    return version.split("+", 1)[0]
