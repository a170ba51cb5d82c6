"""A git folder of our own over the objects of the user's repository.

Configuration, attributes beside the tree, filters, hooks, replaced objects, refs: of these it has what is put
in here, so that git does the same with the same tree on every machine.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from os import fsencode
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import IO

from klops.source.git.command import ALWAYS, environment, run, stream
from klops.source.git.repository import Repository

#: Every temporary folder is called so.
PREFIX = "klops-source-"
#: Seconds that no look and no sync takes.
ABANDONED = 2 * 24 * 3600.0


@dataclass(frozen=True)
class Isolated:
    """A git folder, and how git is called for it."""

    git_dir: Path

    def environment(self) -> dict[str, str]:
        """Ours, without any configuration, for this git folder."""
        home = str(self.git_dir)
        kept = {name: value for name, value in environment().items() if not name.startswith("GIT_")}
        return (
            kept
            | ALWAYS
            | {
                "GIT_DIR": home,
                "GIT_INDEX_FILE": str(self.git_dir / "index"),
                # git 2.32 and newer; an older one looks in the two below
                "GIT_CONFIG_GLOBAL": str(self.git_dir / "none"),
                "HOME": home,
                "XDG_CONFIG_HOME": home,
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_ATTR_NOSYSTEM": "1",
                "GIT_LITERAL_PATHSPECS": "1",
            }
        )

    def run(self, argv: Sequence[str], stdin: bytes = b"") -> bytes:
        """As :func:`klops.source.git.command.run`."""
        return run(argv, self.environment(), stdin=stdin)

    def stream(self, argv: Sequence[str]) -> AbstractContextManager[IO[bytes]]:
        """As :func:`klops.source.git.command.stream`."""
        return stream(argv, self.environment())


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that goes with the block, however that is left.

    What a killed klops left behind goes, too, once it is :data:`ABANDONED` seconds old.
    """
    for left in Path(gettempdir()).glob(f"{PREFIX}*"):
        with suppress(FileNotFoundError):  # it went meanwhile
            if left.stat().st_mtime < time.time() - ABANDONED:
                # another user's can't be removed, and is that one's affair
                shutil.rmtree(left, ignore_errors=True)
    with TemporaryDirectory(prefix=PREFIX) as folder:
        yield Path(folder)


def make(
    git_dir: Path, repository: Repository, *, attributes: str = "", packed_refs: bytes = b""
) -> Isolated:
    """Make the folder ``git_dir``. ``attributes`` win over those of the tree; ``packed_refs``: its refs."""
    for folder in ("objects/info", "refs", "info"):
        (git_dir / folder).mkdir(parents=True)
    alternates = b"".join(quoted(folder) + b"\n" for folder in repository.objects)
    (git_dir / "objects/info/alternates").write_bytes(alternates)
    (git_dir / "info/attributes").write_bytes(attributes.encode("ascii"))
    # a branch that isn't there: no commit is the current one
    (git_dir / "HEAD").write_bytes(b"ref: refs/heads/none\n")
    (git_dir / "none").write_bytes(b"")
    lines = ["[core]", "bare = true"]
    if repository.object_format == "sha1":
        lines += ["repositoryformatversion = 0"]
    else:
        lines += ["repositoryformatversion = 1", "[extensions]", f"objectFormat = {repository.object_format}"]
    (git_dir / "config").write_bytes("\n".join(lines).encode("ascii") + b"\n")
    if packed_refs:
        (git_dir / "packed-refs").write_bytes(packed_refs)
    # where the history of a shallow clone ends
    shallow = repository.common_dir / "shallow"
    if shallow.exists():
        (git_dir / "shallow").write_bytes(shallow.read_bytes())
    return Isolated(git_dir)


def quoted(folder: Path) -> bytes:
    """A path as git takes it in a list of object folders."""
    raw = fsencode(folder.absolute().as_posix())
    if raw[:1] not in (b'"', b"#") and not set(raw) & set(b"\n:;"):
        return raw
    escaped = raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + escaped + b'"'
