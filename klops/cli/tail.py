"""Following a log over a link that may break: cut into lines, and taken up again where it was. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Bytes of what was last shown that are looked for after a broken link.
REMEMBERED = 2048
#: Bytes in which they are looked for before giving up.
SEARCHED = 8 * 1024 * 1024


@dataclass
class Tail:
    """Takes bytes as they arrive and hands on whole lines (a carriage return ends one too: progress bars).

    ``emit`` gets text with its line end. Whole lines only, so that a secret split over two pieces is still
    found by whoever masks them.
    """

    emit: Callable[[str], None]
    _pending: bytes = b""
    _shown: bytes = b""
    _searching: bytearray | None = None

    @property
    def started(self) -> bool:
        """Whether anything was shown yet."""
        return bool(self._shown)

    def feed(self, data: bytes) -> None:
        """Output of the host, in pieces of any size."""
        if self._searching is not None:
            data = self._search(data)
        self._pending += data
        cut = max(self._pending.rfind(b"\n"), self._pending.rfind(b"\r")) + 1
        if cut:
            self._show(self._pending[:cut])
            self._pending = self._pending[cut:]

    def resume(self) -> None:
        """The link broke and is back: what follows begins earlier and is skipped up to what was shown."""
        self._pending = b""
        self._searching = bytearray() if self._shown else None

    def finish(self) -> None:
        """No more will come: hand on the rest."""
        if self._searching:
            self._give_up()
        if self._pending:
            self._show(self._pending)
            self._pending = b""

    def _show(self, data: bytes) -> None:
        self._shown = (self._shown + data)[-REMEMBERED:]
        self.emit(data.decode("utf-8", "replace"))

    def _search(self, data: bytes) -> bytes:
        assert self._searching is not None  # noqa: S101 - asked for by the caller's condition
        # what was searched before can only hold the beginning of a match
        begin = max(0, len(self._searching) - len(self._shown))
        self._searching += data
        found = self._searching.find(self._shown, begin)
        if found >= 0:
            rest = bytes(self._searching[found + len(self._shown) :])
            self._searching = None
            return rest
        if len(self._searching) > SEARCHED:
            self._give_up()
        return b""

    def _give_up(self) -> None:
        self.emit("--- klops: the link broke here; lines may be missing or shown twice ---\n")
        self._pending = bytes(self._searching or b"")
        self._searching = None
