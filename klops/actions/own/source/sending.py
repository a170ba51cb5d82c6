"""The step that brings a tree to the host: what is lacking there is asked, and only that is sent."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from klops.actions.base import Change, Context, Progress, Step
from klops.actions.own import agentlines, hostreads
from klops.actions.own.agentverbs import answer
from klops.actions.own.source import listing
from klops.actions.own.telling import CHANGES

if TYPE_CHECKING:
    from klops.inventory.settings import Settings
    from klops.source.manifest import Entry
    from klops.source.tree import Tree

#: gzip's fastest level: the link is rarely slower than that, and the control node has other hosts to serve.
_LEVEL = 1
_GZIP = 31
#: Bytes a second: a slower link, or a disk that takes less, is given up.
_SLOWEST = 50_000
#: Seconds for what the far side does before and after, whatever the size.
_FINISHING = 600.0


@dataclass(frozen=True)
class SendTree(Step):
    """Lay the tree down as a release; it doesn't run yet."""

    settings: Settings
    tree: Tree
    #: what the host's current release consists of; None where nobody asked, and then there is no diff
    there: tuple[Entry, ...] | None = None

    def change(self) -> Change:
        """The release; how much has to be sent, where that can be told before the host is offered it."""
        release = self.tree.release
        if self.there is None:
            return Change(f"lay down release {release.name} ({self._size()})")
        sent = listing.differing(release.entries, self.there)
        return self._sent(len(sent), sum(entry.size for entry in sent))

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Offer it, send what is lacking. Raises AgentError; what has arrived then isn't sent again."""
        release = self.tree.release
        what = f"release {release.name}"
        done = ctx.remote.run(
            hostreads.agent_argv(self.settings, "offer", stdin=True),
            stdin=release.dumps(),
            check=False,
            timeout=_timeout(sum(entry.size for entry in release.entries)),
        )
        offered = answer(done, f"{what} can't be sent")
        if offered.get("whole"):
            return {CHANGES: ()}
        lacking = [release.entries[index] for index in offered["lacking"]]
        agentlines.follow(
            ctx,
            self.settings,
            ("receive", release.name),
            self._stream(lacking),
            what=f"{what} did not arrive",
            timeout=_timeout(int(offered["bytes"])),
            heard=_Arriving(ctx, len(lacking), int(offered["bytes"])),
        )
        size = sum(entry.size for entry in lacking)
        return {
            "sent_files": len(lacking),
            "sent_bytes": size,
            CHANGES: (self._sent(len(lacking), size),),
        }

    def _stream(self, lacking: Sequence[Entry]) -> Iterator[bytes]:
        """Their contents, one after the other, as one gzip stream."""
        packed = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
        for _, chunks in self.tree.contents([entry.path for entry in lacking]):
            for chunk in chunks:
                yield packed.compress(chunk)
        yield packed.flush()

    def _sent(self, files: int, size: int) -> Change:
        name = self.tree.release.name
        text = f"send {_files(files)}, {listing.amount(size)}, of release {name} ({self._size()})"
        if not files:
            text = f"lay down release {name} of what is there ({self._size()})"
        return Change(text) if self.there is None else Change(text, *self.files(self.there))

    def files(self, there: Sequence[Entry]) -> tuple[str, str]:
        """Both releases in lines, for a diff."""
        after = listing.lines(self.tree.release.entries, self.tree.report.normalised)
        return listing.lines(there), after

    def _size(self) -> str:
        normalised = len(self.tree.report.normalised)
        more = f", line endings made LF in {normalised}" if normalised else ""
        return f"{_files(len(self.tree.release.entries))}{more}"


class _Arriving:
    """Shows what has arrived, and how fast."""

    def __init__(self, ctx: Context, files: int, size: int) -> None:
        self._ctx, self._size, self._begun = ctx, size, time.monotonic()
        ctx.progress(Progress(f"sending {_files(files)}, {listing.amount(size)}", 0.0))

    def __call__(self, said: Mapping[str, Any]) -> None:
        got = said.get("got")
        if not isinstance(got, int):
            return
        rate = got / max(time.monotonic() - self._begun, 0.001)
        text = f"{listing.amount(got)} of {listing.amount(self._size)}, {listing.amount(rate)}/s"
        self._ctx.progress(Progress(text, 100.0 * got / self._size if self._size else None))


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"


def _timeout(size: int) -> float:
    return _FINISHING + size / _SLOWEST
