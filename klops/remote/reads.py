"""Typed reads: the closed set of things a probe may ask of a host.

Each is rendered to a fragment of POSIX shell that leaves nothing behind. That set, not good will, is what
makes check mode unable to write: a :class:`CommandRead` takes only argv that
:func:`klops.commands.readonly.refusal` lets through.
"""

from __future__ import annotations

import abc
import shlex
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from klops.commands.docker import prefix_of
from klops.commands.listing import STAT_LINE
from klops.commands.readonly import refusal

#: Bytes of a file that a probe takes.
FILE_LIMIT = 1024 * 1024
#: Exit status of a read that found nothing at its path.
ABSENT = 44


@dataclass(frozen=True)
class Read(abc.ABC):
    """One thing to read. ``key`` names the reply within its task; two tasks may use the same key."""

    #: True for what takes as long as there is to read, such as a digest: no time is too long for it
    slow: ClassVar[bool] = False
    #: True for what keeps the others of its batch waiting so long that it is better carried out beside them
    beside: ClassVar[bool] = False

    key: str

    @property
    @abc.abstractmethod
    def script(self) -> str:
        """The fragment of POSIX shell that reads it; its standard input is empty unless it brings its own."""

    @property
    def looks(self) -> tuple[str, ...]:
        """Paths that the answer depends on; one that ends with a slash: and on all that is below it."""
        fields = vars(self)
        return (*(fields[name] for name in ("path", "other") if name in fields), *fields.get("paths", ()))

    @property
    def engine(self) -> tuple[str, ...]:
        """How docker is called in it; () when it isn't."""
        return tuple(vars(self).get("docker", ()))


@dataclass(frozen=True)
class FileRead(Read):
    """The content of a file, at most ``limit`` bytes; status ``ABSENT`` when it isn't there.

    A folder, or what could be waited for (a pipe, a device), is not read; that is status 1.
    """

    path: str
    limit: int = FILE_LIMIT

    @property
    def script(self) -> str:
        path = shlex.quote(self.path)
        return (
            f"[ -e {path} ] || exit {ABSENT}; [ -f {path} ] || {{ echo 'not a regular file' >&2; exit 1; }}; "
            f"head -c {self.limit} -- {path}"
        )


@dataclass(frozen=True)
class ListRead(Read):
    """``ls -lnd`` of paths, in the C locale: type, mode, owner, size or device numbers.

    Missing paths are missing in the output and make the status non-zero. ``follow`` looks through links.
    """

    paths: tuple[str, ...]
    follow: bool = False

    @property
    def script(self) -> str:
        flags = "-lndL" if self.follow else "-lnd"
        return f"LC_ALL=C ls {flags} -- " + " ".join(shlex.quote(p) for p in self.paths)


@dataclass(frozen=True)
class PathRead(ListRead):
    """One path as it is: ``ls -ld`` with numbers, then with names; of a link, both again of what it leads to,
    a zero byte and its target.

    Names in the lines are not to be relied on: busybox prints ``?`` for what isn't ASCII.
    Read it with :func:`klops.actions.files.attributes.found`.
    """

    @property
    def script(self) -> str:
        (path,) = (shlex.quote(path) for path in self.paths)
        own = f"LC_ALL=C ls -lnd -- {path} && LC_ALL=C ls -ld -- {path}"
        target = f"LC_ALL=C ls -lndL -- {path} && LC_ALL=C ls -ldL -- {path}"
        leads = f"r=$?; printf '\\0%s' \"$(readlink -- {path})\"; exit $r"
        return f"{own} && if [ -h {path} ]; then {target}; {leads}; fi"


@dataclass(frozen=True)
class TreeRead(Read):
    """A folder and all that is below it, links not followed: a line of a listing each, in no order.

    Status ``ABSENT`` when it is no folder. In place of a name with a line break, and of what is below it,
    stands ``?``: the rest of such a name could look like the line of another path.
    """

    slow: ClassVar[bool] = True

    path: str

    @property
    def looks(self) -> tuple[str, ...]:
        return (self.path.rstrip("/") + "/",)

    @property
    def script(self) -> str:
        path = shlex.quote(self.path.rstrip("/") + "/")
        broken = "-name '*\n*' -prune -exec echo '?' ';'"
        each = f"-exec stat -c {shlex.quote(STAT_LINE)} -- {{}} +"
        return f"[ -d {path} ] || exit {ABSENT}; LC_ALL=C find {path} {broken} -o {each}"


@dataclass(frozen=True)
class FilesRead(Read):
    """Paths below a folder: a line of a listing for each that is there, a second one with the target for each
    link, then ``DIGEST  PATH`` of the files.

    ``paths`` and ``files`` (those of them whose content counts) are relative to ``folder``, and so is the
    answer, with ``./`` before each.
    """

    slow: ClassVar[bool] = True

    folder: str
    paths: tuple[str, ...]
    files: tuple[str, ...]

    #: names handed to one process: far below what a command line may hold
    _AT_ONCE = 200

    @property
    def looks(self) -> tuple[str, ...]:
        return (self.folder.rstrip("/") + "/",)

    @property
    def script(self) -> str:
        parts = [f"cd -- {shlex.quote(self.folder)} 2>/dev/null || exit {ABSENT}"]
        line = f"stat -c {shlex.quote(STAT_LINE)} --"
        link = f"""printf '%s -> %s\\n' "$({line} "$f")" "$(readlink -- "$f")\""""
        for some in self._quoted(self.paths):
            parts.append(f"{line} {some} 2>/dev/null")
            parts.append(f'for f in {some}; do if [ -h "$f" ]; then {link}; fi; done')
        if self.files:
            tool = 'if command -v sha256sum >/dev/null; then s() { sha256sum -- "$@"; }; '
            parts.append(f'{tool}else s() {{ shasum -a 256 -- "$@"; }}; fi')
            parts += [f"s {some} 2>/dev/null" for some in self._quoted(self.files)]
        return "; ".join([*parts, "true"])

    def _quoted(self, paths: tuple[str, ...]) -> list[str]:
        pieces = [paths[at : at + self._AT_ONCE] for at in range(0, len(paths), self._AT_ONCE)]
        return [" ".join(shlex.quote("./" + path) for path in piece) for piece in pieces]


@dataclass(frozen=True)
class NamesRead(Read):
    """Lines of ``passwd`` or ``group``: what the host knows of names, wherever from, then its own file."""

    database: Literal["passwd", "group"]
    names: tuple[str, ...]

    @property
    def looks(self) -> tuple[str, ...]:
        return (f"/etc/{self.database}",)

    @property
    def script(self) -> str:
        # not every host has getent, and of many names it finds those that are there
        asked = f"getent {self.database} {shlex.join(self.names)} 2>/dev/null; " if self.names else ""
        return f"{asked}cat /etc/{self.database}"


@dataclass(frozen=True)
class RealPathRead(Read):
    """Where a path leads when every link in it is followed; the last part needs not be there."""

    path: str

    @property
    def script(self) -> str:
        return f"readlink -f -- {shlex.quote(self.path)}"


@dataclass(frozen=True)
class SameFileRead(Read):
    """Status 0 when two paths are one file (device and inode), links followed."""

    path: str
    other: str

    @property
    def script(self) -> str:
        return f"[ {shlex.quote(self.path)} -ef {shlex.quote(self.other)} ]"


@dataclass(frozen=True)
class SameContentRead(Read):
    """Status 0 when two files hold the same bytes; 1 when not, or one of them isn't there."""

    slow: ClassVar[bool] = True

    path: str
    other: str

    @property
    def script(self) -> str:
        one, other = shlex.quote(self.path), shlex.quote(self.other)
        return f"[ -f {one} ] && [ -f {other} ] && cmp -s -- {one} {other}"


@dataclass(frozen=True)
class TimesRead(Read):
    """Access and modification time of a path, links followed, as ``touch -t`` takes them; a line each."""

    path: str

    @property
    def script(self) -> str:
        form = "+%Y%m%d%H%M.%S"
        times = f"times=$(stat -L -c '%X %Y' -- {shlex.quote(self.path)}) || exit {ABSENT}"
        return f'{times}; date -d "@${{times% *}}" {form} && date -d "@${{times#* }}" {form}'


@dataclass(frozen=True)
class DigestRead(Read):
    """sha256 of a file as 64 hex digits; status ``ABSENT`` when it isn't there."""

    slow: ClassVar[bool] = True

    path: str

    @property
    def script(self) -> str:
        path = shlex.quote(self.path)
        return (
            f"[ -f {path} ] || exit {ABSENT}; "
            f"if command -v sha256sum >/dev/null; then sha256sum < {path}; else shasum -a 256 < {path}; fi"
            " | cut -c1-64"
        )


@dataclass(frozen=True)
class ChecksumsRead(Read):
    """sha1 and md5 of a file, a line of hex digits each: what Ansible registers, no means to compare."""

    slow: ClassVar[bool] = True

    path: str

    @property
    def script(self) -> str:
        path = shlex.quote(self.path)
        return f"[ -f {path} ] || exit {ABSENT}; sha1sum < {path} | cut -c1-40; md5sum < {path} | cut -c1-32"


@dataclass(frozen=True)
class CommandRead(Read):
    """A command known to read only. Any other argv is refused here, before it can be sent anywhere."""

    argv: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        why = refusal(self.argv)
        if why:
            raise ValueError(f"not a read: {shlex.join(self.argv)}: {why}")

    @property
    def engine(self) -> tuple[str, ...]:
        return prefix_of(self.argv)

    @property
    def script(self) -> str:
        return shlex.join(self.argv)


@dataclass(frozen=True)
class FirstRead(Read):
    """The first of several reads that succeeds and says something; its key is the answer's first line."""

    options: tuple[Read, ...]

    @property
    def looks(self) -> tuple[str, ...]:
        return tuple(path for option in self.options for path in option.looks)

    @property
    def engine(self) -> tuple[str, ...]:
        return next((option.engine for option in self.options if option.engine), ())

    @property
    def script(self) -> str:
        found = """&& [ -n "$out" ]; then printf '%s\\n' {key} "$out"; exit 0; fi; """
        tries = [
            f"if out=$({option.script}) " + found.format(key=shlex.quote(option.key))
            for option in self.options
        ]
        return "".join(tries) + "exit 1"
