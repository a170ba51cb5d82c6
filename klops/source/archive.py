"""What ``git archive`` says a tree consists of, and the content of each part of it as committed."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Sequence
from typing import IO, NamedTuple

from klops.commands import git as calls
from klops.errors import TaskFailed
from klops.source.git.isolated import Isolated

#: Attributes over those of the tree: the archive then has the line endings of the commit.
AS_COMMITTED = "* !eol\n"
#: Bytes of a file that are read at once.
CHUNK = 1 << 20
#: Bytes of the archive that are: tarfile copies what is left of them for each part that it takes away.
_READ = 32 << 10


class Member(NamedTuple):
    """``path`` within the repository. ``file`` is of a file only, and is read before the next member is asked
    for.

    ``target``: what a link points to. Neither: a folder, or the place of a submodule.
    """

    path: str
    size: int = 0
    file: IO[bytes] | None = None
    target: str | None = None


def members(git: Isolated, treeish: str, paths: Sequence[str] = ()) -> Iterator[Member]:
    """In the order of the bytes of their paths, but for folders. ``paths``: only these, and what is below
    them.

    What export-ignore names isn't there. Placeholders of export-subst are filled in when ``treeish`` is a
    commit.
    """
    cut: tarfile.TarError | None = None
    empty = True
    with git.stream(calls.archive(treeish, paths)) as out:
        try:
            with tarfile.open(fileobj=out, mode="r|", bufsize=_READ, encoding="utf-8") as tar:
                while (info := tar.next()) is not None:
                    empty = False
                    # a stream's members can't be read twice: no list of them has to grow
                    tar.members = []  # type: ignore[attr-defined] # documented nowhere, there since Python 2
                    if info.isreg():
                        yield Member(info.name, info.size, tar.extractfile(info))
                    elif info.issym():
                        yield Member(info.name, target=info.linkname)
                    else:
                        yield Member(info.name)
        except tarfile.TarError as error:
            # what git says of it, on the way out, is the better reason
            cut = error
    # tarfile takes no archive that has only the header that names a commit
    if cut is not None and not empty:
        raise TaskFailed(f"git archive: {cut}", code="git-failed") from cut
