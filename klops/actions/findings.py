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
    "smi-path",
    "card-not-device",
    "card-missing",
    "cards-count",
    "runtime-missing",
    "cards-unavailable",
    "disk-full",
    "root-not-writable",
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
    """One error for all findings that are more than a warning: lists all, with the code of the gravest."""
    failed = [finding for finding in findings if not finding.warning]
    if not failed:
        return None
    gravest = min(failed, key=lambda finding: SEVERITY.index(finding.code))
    kind = DockerUnavailable if gravest.code.startswith("docker-") else TaskFailed
    if len(failed) == 1:
        return kind(gravest.message, code=gravest.code, hint=gravest.hint)
    listed = "\n".join(f"- {finding}" for finding in failed)
    return kind(
        f"{len(failed)} things are not as they must be:\n{listed}", code=gravest.code, hint=gravest.hint
    )


def warnings(findings: Sequence[Finding]) -> tuple[str, ...]:
    """The texts of those that are only warnings."""
    return tuple(str(finding) for finding in findings if finding.warning)
