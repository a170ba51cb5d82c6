"""How the image of the settings comes to the host: not at all, from an archive, from its registry. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from klops.actions.own import hostreads
from klops.actions.own.hostview import HostView, reply
from klops.commands import images, listing
from klops.commands.mounts import Space, parse_df
from klops.errors import TaskFailed
from klops.remote.base import Replies
from klops.remote.containerreads import DockerDiskRead
from klops.remote.imagereads import ImageArchiveRead
from klops.remote.reads import ABSENT, Read

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

ARCHIVE = "image.archive"
DISK = "df.docker"

#: How an archive is packed by its first bytes; anything else is a plain tar, or docker will say what it is.
_MAGIC = {"1f8b": "gzip", "425a68": "bzip2", "fd377a585a00": "xz", "28b52ffd": "zstd"}
#: How many times its size an archive unpacks to. Nothing in a packed file can be relied on to tell (gzip
#: keeps the size modulo 4 GiB): these are low for images of Python packages and libraries, so that an archive
#: is refused only where there is surely too little room.
FACTORS = {"tar": 1.0, "gzip": 2.0, "bzip2": 2.0, "xz": 2.5, "zstd": 2.0}
#: Docker unpacks an archive below its data root, and makes the layers from that copy before it goes.
COPIES = 2
_GIB = 1024**3


@dataclass(frozen=True)
class Archive:
    """An archive of images on the host: its size in bytes, and how it is packed (a key of ``FACTORS``)."""

    path: str
    size: int
    packing: str = "tar"

    @property
    def needed(self) -> int:
        """Bytes that must be free where docker keeps its data, to load it."""
        return int(self.size * FACTORS[self.packing] * COPIES)

    def __str__(self) -> str:
        packed = "" if self.packing == "tar" else f", {self.packing}"
        return f"{self.path} ({gib(self.size)}{packed})"


@dataclass(frozen=True)
class Coming:
    """How the image comes: first from an archive, if at all, then by ``pull``; ``why`` says that it can't.

    ``present``: it is on the host. ``needed``: something is to be made of it now.
    """

    present: bool = False
    needed: bool = False
    load: Archive | None = None
    pull: bool = False
    why: TaskFailed | None = None

    @property
    def how(self) -> str:
        """In a few words: ``loaded from ARCHIVE``, ``pulled``; "" when nothing is to come."""
        if self.load is not None:
            return f"loaded from {self.load}"
        return "pulled" if self.pull else ""


def reads(settings: Settings) -> tuple[Read, ...]:
    """The image, the archive it may come from, and the room there is for it."""
    path = settings.container.image_archive
    archive = (ImageArchiveRead(ARCHIVE, path),) if path else ()
    room = DockerDiskRead(DISK, hostreads.docker_prefix(settings))
    return (*hostreads.image(settings), *archive, room)


def may_replace(settings: Settings, host: HostView, word: str | None) -> bool:
    """Whether another container may be made in place of the one that is there.

    ``word``: what this run says of it. The settings alone speak only of what klops made.
    """
    return (word or (settings.container.recreate if host.made else "report")) == "allow"


def coming(settings: Settings, replies: Replies, *, there: bool, recreate: bool) -> Coming:
    """What is to be done about the image.

    ``there``: there is a container; it needs no image any more, unless another one may be made in its place
    (``recreate``).
    """
    wanted = settings.container
    needed = not there or recreate
    if not wanted.image:
        return Coming(needed=not there, why=_unset())
    by_content = images.by_content(wanted.image)
    if reply(replies, hostreads.IMAGE).ok:
        return Coming(present=True, needed=needed, pull=wanted.pull == "always" and not by_content)
    if wanted.image_archive:
        archive = _archive(wanted.image_archive, replies)
        why = archive if isinstance(archive, TaskFailed) else too_big(archive, replies)
        if why is not None or isinstance(archive, TaskFailed):
            return Coming(needed=needed, why=why)
        again = wanted.pull == "always" and not by_content
        return Coming(needed=needed, load=archive, pull=again)
    if wanted.pull == "never" or wanted.image.startswith("sha256:"):
        return Coming(needed=needed, why=_never(settings))
    return Coming(needed=needed, pull=True)


def disk(replies: Replies) -> str:
    """Where docker's disk is mounted."""
    space = parse_df(reply(replies, DISK).text)
    return space.mount if space is not None else "/"


def too_big(archive: Archive, replies: Replies) -> TaskFailed | None:
    """The error for an archive that docker's disk surely has no room for; None also when nobody can tell."""
    space: Space | None = parse_df(reply(replies, DISK).text)
    if space is None or space.available * 1024 >= archive.needed:
        return None
    times = f"{COPIES} x " + ("" if archive.packing == "tar" else f"{FACTORS[archive.packing]:g} x ")
    return TaskFailed(
        f"{archive} can't be loaded: {gib(space.available * 1024)} are free on {space.mount}, where docker "
        f"keeps its data, and {gib(archive.needed)} are needed ({times}its size: docker unpacks it, then "
        "makes the layers)",
        code="disk-full",
        hint="docker system df shows what can go; what docker load -i brings by hand is taken as it is",
    )


def gib(size: float) -> str:
    """Bytes as GiB, or as MiB below one."""
    return f"{size / _GIB:.1f} GiB" if size >= _GIB else f"{size / 1024**2:.1f} MiB"


def _unset() -> TaskFailed:
    return TaskFailed(
        "there is no container, and no image is set to make one from",
        code="image-missing",
        hint="set klops.container.image to the name of an image",
    )


def _never(settings: Settings) -> TaskFailed:
    image = settings.container.image
    by_id = "; an image named by its id can't be pulled" if settings.container.pull != "never" else ""
    return TaskFailed(
        f"the image {image} is not on the host, and may not be fetched "
        f"(klops.container.pull is {settings.container.pull}{by_id})",
        code="image-missing",
        hint=f"bring it to the host: docker pull {image}, or docker load -i ARCHIVE; or set "
        "klops.container.image_archive, or klops.container.pull: missing",
    )


def _archive(path: str, replies: Replies) -> Archive | TaskFailed:
    answer = reply(replies, ARCHIVE)
    entry = listing.parse(answer.text).get(path)
    if answer.ok and entry is not None:
        head = "".join(answer.text.splitlines()[-1].split())
        packing = next((form for magic, form in _MAGIC.items() if head.startswith(magic)), "tar")
        return Archive(path, entry.size, packing)
    seen = "is not there" if answer.rc == ABSENT else answer.error_text.strip() or f"status {answer.rc}"
    return TaskFailed(
        f"the image is not on the host, and the archive it is to come from can't be read: {path}: {seen}",
        code="image-missing",
        hint="put the archive there, correct klops.container.image_archive, or leave it out to pull the "
        "image",
    )
