"""Which driver a host has, and what is documented of it. Pure.

The number that xpu-smi prints depends on the binary and on where it runs: in a container with the CUDA shim
it is 515.58, which is the shim's build number. What counts is the host's ``/proc/kunlun/version``.
"""

from __future__ import annotations

import re

from klops.cards.evidence.findings import NOTE, UNKNOWN, Finding

#: The version is a field of the line that names the driver: the tenth, as people's scripts take it.
_NAME, _FIELD = "KUNLUN", 10
_VERSION = re.compile(r"\d+(?:\.\d+)+\Z")
#: What the shim in containers prints in place of the driver's version.
SHIMS = ("515.58",)
#: Least versions that projects for these cards document. vLLM-Kunlun, which is what runs here, names none.
FLOORS = (("5.0.21.21", "ERNIE"), ("5.0.21.26", "FastDeploy"))


def parse(text: str) -> str:
    """The version in ``/proc/kunlun/version``, "" when there is none.

    >>> parse("KUNLUN driver version: a b c d e f 5.0.21.47 built by x")
    '5.0.21.47'
    """
    for line in text.splitlines():
        words = line.split()
        if _NAME not in line.upper():
            continue
        if len(words) >= _FIELD and _VERSION.match(words[_FIELD - 1]):
            return words[_FIELD - 1]
        found = next((word for word in words if _VERSION.match(word)), "")
        if found:
            return found
    return ""


#: What is put behind a version that only xpu-smi tells: it is none to hold against one of the driver's own.
_TOLD = " (xpu-smi)"


def known(proc: str, told: str) -> str:
    """The driver by which it is judged whether what was found is still good; "" where it isn't known.

    ``proc``: the text of ``/proc/kunlun/version``; ``told``: what xpu-smi says, which counts only where that
    can't be read, and never where it is a shim's.
    """
    return parse(proc) or ("" if not told or told in SHIMS else told + _TOLD)


def changed(now: str, then: str) -> bool:
    """Whether the driver is another one: of two versions from one source. Both as :func:`known` has them.

    >>> changed("5.0.21.47", "5.0.21.26"), changed("5.0.21.47", "5.0.21.26 (xpu-smi)"), changed("", "5.0")
    (True, False, False)
    """
    return bool(now and then) and now.endswith(_TOLD) == then.endswith(_TOLD) and now != then


def older(version: str, than: str) -> bool:
    """Whether a version is older, number by number. What isn't made of numbers never is.

    >>> older("5.0.21.8", "5.0.21.26")
    True
    """
    if not _VERSION.match(version):
        return False
    one, other = ([int(part) for part in text.split(".")] for text in (version, than))
    return one < other


def findings(host: str, told: str, place: str) -> list[Finding]:
    """``host``: the version of ``/proc``; ``told``: that of xpu-smi, asked at ``place``. "": not known."""
    found = []
    if told in SHIMS:
        said = (
            f"xpu-smi in the {place} calls the driver {told}, which is the number of the shim there; "
            f"/proc/kunlun/version: {host or 'not read'}"
        )
        found.append(Finding("driver", None, NOTE, said))
        told = ""
    if host and told and host != told:
        said = f"the driver is {host} in /proc/kunlun/version and {told} in xpu-smi on the {place}"
        found.append(Finding("sources", None, NOTE, said))
    version = host or told
    if not version:
        found.append(Finding("driver", None, UNKNOWN, "the driver's version could not be read"))
        return found
    found.append(Finding("driver", None, NOTE, f"driver {version}"))
    floors = [f"{floor} ({who})" for floor, who in FLOORS if older(version, floor)]
    if floors:
        said = f"driver {version} is older than what others document as their least: {', '.join(floors)}"
        found.append(Finding("driver", None, NOTE, said))
    return found
