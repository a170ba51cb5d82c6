"""Findings of a look at a host, and the one error they make together. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klops.errors import DockerUnavailable, KlopsError, TaskFailed

#: Codes of failures, the one that explains most of the others first.
SEVERITY = (
    "docker-unavailable",
    "docker-denied",
    "container",
    "damaged",
    "schema",
    "unreadable",
    "container-renamed",
    "smi-path",
    "card-not-device",
    "card-missing",
    "cards-count",
    "runtime-missing",
    "cards-unavailable",
    "disk-full",
    "root-not-writable",
    "secret-unusable",
    "secret-missing",
    "image-missing",
    "model-missing",
    "port-taken",
)


@dataclass(frozen=True)
class Finding:
    """One thing that isn't as it must be. A ``warning`` doesn't stop anything."""

    code: str
    message: str
    hint: str = ""
    warning: bool = False

    def __str__(self) -> str:
        return self.message + (f" ({self.hint})" if self.hint else "")


def failure(findings: Sequence[Finding]) -> KlopsError | None:
    """One error for all findings that are more than a warning, with code and hint of the gravest.

    Its first line alone tells the gravest and how many more there are; each of those has a line below it.
    """
    failed = [finding for finding in findings if not finding.warning]
    if not failed:
        return None
    gravest, *others = sorted(failed, key=lambda finding: SEVERITY.index(finding.code))
    kind = DockerUnavailable if gravest.code.startswith("docker-") else TaskFailed
    more = f" (and {len(others)} more)" if others else ""
    listed = "".join(f"\n- {finding}" for finding in others)
    return kind(f"{gravest.message}{more}{listed}", code=gravest.code, hint=gravest.hint)


def warnings(findings: Sequence[Finding]) -> tuple[str, ...]:
    """The texts of those that are only warnings."""
    return tuple(str(finding) for finding in findings if finding.warning)
