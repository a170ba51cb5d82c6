"""The step that brings a tree to the host: what is lacking there is asked, and only that is sent."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from klops.actions.base import Change, Context, Progress, Step
from klops.actions.own import agentlines
from klops.actions.own.generation import look
from klops.actions.own.source import listing
from klops.actions.own.telling import CHANGES
from klops.errors import AgentError

if TYPE_CHECKING:
    from klops.actions.own.source.steps import ActivateRelease
    from klops.inventory.settings import Settings
    from klops.source.manifest import Entry
    from klops.source.tree import Tree

#: gzip's fastest level: the link is rarely slower than that, and the control node has other hosts to serve.
_LEVEL = 1
_GZIP = 31
#: Bytes a second: a slower link, or a disk that takes less, is given up.
_SLOWEST = 50_000
#: Seconds for what the far side does before and after, whatever the size: every file of another release is
#: read, a package's folder may have to be copied, and old releases go.
_FINISHING = 1200.0


@dataclass(frozen=True)
class SendTree(Step):
    """Lay the tree down as a release; where no build is to come between, it becomes the one that runs."""

    #: the agent does nothing before it is told what
    awaits_lock: ClassVar[bool] = True

    settings: Settings
    tree: Tree
    #: what the host's current release consists of; None where nobody asked, and then there is no diff
    there: tuple[Entry, ...] | None = None
    then: ActivateRelease | None = None
    #: what stands then is noted as a generation, where no unit runs on it
    noted: bool = False

    def change(self) -> Change:
        """The release; how much has to be sent, where that can be told before the host is offered it."""
        release = self.tree.release
        if self.there is None:
            return Change(f"lay down release {release.name} ({self._size()})")
        sent = listing.differing(release.entries, self.there)
        return self._sent(len(sent), sum(entry.size for entry in sent))

    def changed(self) -> tuple[Change, ...]:
        """That, and the switch."""
        return (self.change(), *(self.then.changed() if self.then else ()))

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Tell what it is, send what is lacking. Raises AgentError; what has arrived isn't sent again."""
        release, heard = self.tree.release, _Heard(ctx)
        try:
            done = agentlines.follow(
                ctx,
                self.settings,
                ("send", "--while-stdin"),
                self._input(ctx, heard),
                what=f"release {release.name} was not {'put in place' if self.then else 'laid down'}",
                timeout=_FINISHING + sum(entry.size for entry in release.entries) / _SLOWEST,
                heard=heard,
            )
        except AgentError:
            ctx.done.extend(self._made(heard) if heard.laid else ())
            raise
        for note in done.get("notes") or ():
            ctx.warn(str(note))
        lacking = heard.lacking or ()
        told = {
            "sent_files": len(lacking),
            "sent_bytes": sum(release.entries[index].size for index in lacking),
        }
        made = () if done.get("whole") else self._made(heard)
        if self.then is None:
            return {**told, CHANGES: made}
        activated = self.then.activated(ctx, done["activated"])
        generation = {"generation": done["generation"]} if done["generation"] else {}
        return {**told, **activated, **generation, CHANGES: (*made, *activated[CHANGES])}

    def _made(self, heard: _Heard) -> tuple[Change, ...]:
        entries = [self.tree.release.entries[index] for index in heard.lacking or ()]
        return (self._sent(len(entries), sum(entry.size for entry in entries)),)

    def _input(self, ctx: Context, heard: _Heard) -> Iterator[bytes | None]:
        """What is asked, the manifest, and, once it is told what is lacking, that."""
        release = self.tree.release
        manifest = release.dumps()
        asked = {
            "manifest": len(manifest),
            "activate": None if self.then is None else self.then.request(),
            "note": look.request(self.settings, ctx.view.run) if self.noted else None,
        }
        ctx.locked()
        yield agentlines.request(asked) + manifest
        while heard.lacking is None:
            yield None
        if heard.lacking:
            yield from self._stream([release.entries[index] for index in heard.lacking])

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


class _Heard:
    """What the host tells: indexes of the ``lacking`` entries, how far it is, that all is ``laid``."""

    def __init__(self, ctx: Context) -> None:
        self._ctx, self._size, self._begun = ctx, 0, 0.0
        self.lacking: list[int] | None = None
        self.laid = False

    def __call__(self, said: Mapping[str, Any]) -> None:
        got = said.get("got")
        if "lacking" in said:
            self._size, self._begun = int(said["bytes"]), time.monotonic()
            self.lacking = [int(index) for index in said["lacking"]]
            if self.lacking:
                text = f"sending {_files(len(self.lacking))}, {listing.amount(self._size)}"
                self._ctx.progress(Progress(text, 0.0))
        elif isinstance(got, int):
            rate = got / max(time.monotonic() - self._begun, 0.001)
            text = f"{listing.amount(got)} of {listing.amount(self._size)}, {listing.amount(rate)}/s"
            self._ctx.progress(Progress(text, 100.0 * got / self._size if self._size else None))
        self.laid |= "laid" in said


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"
