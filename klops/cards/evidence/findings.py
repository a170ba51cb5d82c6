"""What was found out about cards without putting load on them, one thing at a time. Data only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

#: How much a finding says: the card can't serve; it serves, but something is wrong; it can't be told now;
#: worth knowing.
FAIL, DEGRADED, UNKNOWN, NOTE = "fail", "degraded", "unknown", "note"


@dataclass(frozen=True)
class Finding:
    """One thing. ``card`` is an smi index; None is about the host, and no card is to blame."""

    kind: str
    card: int | None
    severity: str
    text: str
    #: what is to be done, one of :data:`klops.cards.xccl.results.ACTIONS`
    action: str = "none"

    def as_json(self) -> dict[str, Any]:
        """Keys as the fields are called."""
        return asdict(self)
