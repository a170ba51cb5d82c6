"""The typed read of an archive of images, without reading what is in it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from klops.remote.reads import ABSENT, Read

#: Bytes that tell how a file is packed.
MAGIC = 6


@dataclass(frozen=True)
class ImageArchiveRead(Read):
    """A line of a listing of a file that this user may read, and its first bytes as hexadecimal numbers.

    Status ``ABSENT`` when it isn't there.
    """

    path: str

    @property
    def script(self) -> str:
        path = shlex.quote(self.path)
        return (
            f"[ -e {path} ] || exit {ABSENT}; [ -f {path} ] || {{ echo 'not a regular file' >&2; exit 1; }}; "
            f"[ -r {path} ] || {{ echo 'this user may not read it' >&2; exit 1; }}; "
            f"LC_ALL=C ls -lndL -- {path} && head -c {MAGIC} -- {path} | od -An -tx1"
        )
