"""The verb ``receive``: contents arrive as one compressed stream, and become a release."""

from __future__ import annotations

import errno
import hashlib
import os
import time
import zlib
from typing import Any, Callable, Mapping

from klops.agent.errors import VerbError
from klops.agent.releases import files, known, prune, sources
from klops.agent.releases import offer as offers
from klops.agent.releases.lay import lay
from klops.agent.releases.places import Places, check_name
from klops.agent.releases.publish import publish
from klops.source.manifest import Entry

#: Seconds between two lines on what has arrived.
_REPEAT = 0.5
#: Of a gzip stream, for zlib.
_GZIP = 31
_PIECE = 1 << 16
#: Writes one object; False when nobody reads.
Tell = Callable[[Mapping[str, Any]], bool]


class Gone(Exception):
    """Nobody waits for the end any more."""


class Stream:
    """Plain bytes of a gzip stream."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._inflate = zlib.decompressobj(_GZIP)
        self._ahead = b""

    def take(self, most: int) -> bytes:
        """Up to so many bytes; b"" at the stream's proper end. Raises :class:`VerbError`."""
        while not self._inflate.eof:
            raw = self._inflate.unconsumed_tail or self._ahead or self._read(_PIECE)
            self._ahead = b""
            try:
                data = self._inflate.decompress(raw, most)
            except zlib.error as error:
                raise cut(f"it is no gzip stream: {error}") from error
            if data:
                return data
            if not raw:
                raise cut("it ended early")
        return b""

    def end(self, taken: int) -> None:
        """Raises :class:`VerbError` when there is more, or no proper end; of nothing, nothing is one."""
        if not taken:
            self._ahead = self._read(_PIECE)
            if not self._ahead:
                return
        if self.take(1) or self._inflate.unused_data:
            raise cut("it holds more than was offered")


def cut(why: str) -> VerbError:
    """What is said of a stream that isn't as it should be."""
    return VerbError(
        "stream-cut",
        f"what was sent is not whole: {why}; the release that runs is as it was",
        "repeat it: what has arrived is not sent again",
    )


def receive(places: Places, name: str, read: Callable[[int], bytes], tell: Tell) -> dict[str, Any]:
    """``{name, files, bytes, linked}``, once the release is whole. ``read`` gives bytes of the stream.

    Raises :class:`VerbError`, :class:`Gone` and ``OSError``; what has arrived then stays for the next run,
    but not on a full disk.
    """
    check_name(name)
    with places.alone("receive"):
        try:
            return _receive(places, name, read, tell)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            offers.drop(places, name)
            raise offers.disk_full(places, "it became full while the release arrived") from error
        except VerbError as failure:
            if failure.code == "unsafe-path":
                offers.drop(places, name)
            raise


def _receive(places: Places, name: str, read: Callable[[int], bytes], tell: Tell) -> dict[str, Any]:
    agreed = offers.agreed(places, name)
    if agreed is None:
        if name in known.whole(places):
            return {"name": name, "files": 0, "bytes": 0, "linked": 0}
        raise VerbError("no-offer", f"{name} was not offered", "repeat the klops sync")
    release, lacking = agreed
    wanted = [release.entries[index] for index in lacking]
    stream = Stream(read)
    arrived = _arrive(os.fsencode(sources.objects(places, name)), wanted, stream, tell)
    stream.end(arrived)
    tree = os.fsencode(places.incoming(name) + "/tree")
    laid = lay(places, release, tree)
    publish(places, release, tree, laid.written)
    prune.sweep(places)
    return {"name": name, "files": len(wanted), "bytes": arrived, "linked": laid.linked}


def _arrive(folder: bytes, wanted: list[Entry], stream: Stream, tell: Tell) -> int:
    """Take in contents, each written beside and renamed once it is whole and right; their bytes."""
    got, shown = 0, time.monotonic()
    for number, entry in enumerate(wanted):
        beside = folder + b"/part"
        summed, left = hashlib.sha256(), entry.size
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            while left:
                data = stream.take(min(left, files.PIECE))
                if not data:
                    raise cut("it ended early")
                files.write_all(fd, data)
                summed.update(data)
                left -= len(data)
                got += len(data)
                if time.monotonic() - shown >= _REPEAT:
                    shown = time.monotonic()
                    if not tell({"got": got, "files": number}):
                        raise Gone
        finally:
            os.close(fd)
        if summed.hexdigest() != entry.sha256:
            raise VerbError(
                "content-changed",
                f"{entry.path} is not what its manifest says: it has the sha256 {summed.hexdigest()}",
                "repeat it; was the file changed while it was sent?",
            )
        os.rename(beside, folder + b"/" + entry.sha256.encode("ascii"))
    return got
