"""Steps of ``klops.cron``: the proof that cron takes what was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from klops.actions.base import Change, Context, Step
from klops.actions.own.cron.look import file_reads, refusals
from klops.errors import TaskFailed


@dataclass(frozen=True)
class ProveFile(Step):
    """Look at the file as cron will: what is wrong with one cron mostly tells nobody."""

    changes: ClassVar[bool] = False

    path: str

    def change(self) -> Change:
        """The file."""
        return Change(f"see that cron takes {self.path}")

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Read it again. Raises :class:`TaskFailed`."""
        why = refusals(ctx.remote.read(file_reads(self.path)), self.path)
        if why:
            raise TaskFailed(
                f"cron will not take {self.path}: {'; '.join(why)}",
                hint="what else keeps files there? klops cron install writes it anew",
                code="cron-refused",
            )
        return None
