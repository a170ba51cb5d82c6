"""Typed reads for archives: what is there of an archive's members, and how an archive of the host differs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from klops.commands.words import word
from klops.remote.filereads import NO_PROGRAM, UNREADABLE
from klops.remote.reads import ABSENT, Read

_END = "KLOPS_NAMES"
#: The one option of tar that a read may have: others run programs.
STRIP = re.compile(r"--strip(?:-components)?=(\d+)")


def like_options(names: Iterable[str]) -> tuple[str, ...]:
    """Names of members that tar or unzip would take for options."""
    return tuple(name for name in names if name.startswith("-"))


@dataclass(frozen=True)
class ManifestRead(Read):
    """Of ``names`` below ``folder``: kinds and attributes, sha256 of files, targets of links.

    Three parts, each ended by two zero bytes: lines ``MODE(hex) UID GID SIZE MTIME NAME`` (without what isn't
    there), lines ``SHA256  NAME``, and pairs of a link and its target with a zero byte behind each. Names
    come back with ``./`` before them. They may hold no line breaks.
    """

    slow: ClassVar[bool] = True

    folder: str
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if any("\n" in name or "\0" in name for name in self.names):
            raise ValueError("a name with a line break can't be asked for")

    @property
    def looks(self) -> tuple[str, ...]:
        return (self.folder.rstrip("/") + "/",)

    @property
    def script(self) -> str:
        names = "".join(f"./{name}\n" for name in self.names)
        return f"""CDPATH= cd -- {word(self.folder)} >/dev/null 2>&1 || exit {ABSENT}
command -v sha256sum >/dev/null || exit {NO_PROGRAM}
n() {{ cat <<'{_END}'
{names}{_END}
}}
n | tr '\\n' '\\0' | xargs -0 -r stat -c '%f %u %g %s %Y %n' -- 2>/dev/null
printf '\\0\\0'
n | while IFS= read -r f; do if [ -f "$f" ] && ! [ -h "$f" ]; then printf '%s\\0' "$f"; fi; done |
xargs -0 -r sha256sum -- 2>/dev/null
printf '\\0\\0'
n | while IFS= read -r f; do if [ -h "$f" ]; then printf '%s\\0%s\\0' "$f" "$(readlink -- "$f")"; fi; done
printf '\\0\\0'"""


@dataclass(frozen=True)
class ArchiveRead(Read):
    """An archive of the host against the folder it is to be unpacked into.

    Five parts, each ended by a zero byte: the archive's path as expanded; its first six bytes in hex; the
    members' names, one a line; ``compared``, or nothing where the host's programs can't compare; what
    differs, one a line.
    ``options`` go to tar, both for the list and for the comparison. Raises :class:`ValueError` for options
    and members by which tar could do anything but read.
    Statuses: ``ABSENT``, ``UNREADABLE``, ``NO_PROGRAM``; 48 for what is no archive.
    """

    slow: ClassVar[bool] = True

    path: str
    folder: str
    options: tuple[str, ...] = ()
    include: tuple[str, ...] = field(default=())
    exclude: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        odd = [option for option in self.options if STRIP.fullmatch(option) is None]
        odd += like_options((*self.include, *self.exclude))
        if odd:
            raise ValueError(f"not a read: {odd[0]} as an argument of tar or unzip")

    @property
    def looks(self) -> tuple[str, ...]:
        return (self.path, self.folder.rstrip("/") + "/")

    @property
    def script(self) -> str:
        options = shlex.join([*self.options, *(f"--exclude={pattern}" for pattern in self.exclude)])
        only = shlex.join(self.include)
        members = f"-- {only}" if only else ""
        leave = f"-x {shlex.join(self.exclude)}" if self.exclude else ""
        return f"""s={word(self.path)}; d={word(self.folder)}; LC_ALL=C; export LC_ALL
[ -e "$s" ] || exit {ABSENT}
[ -f "$s" ] && [ -r "$s" ] || exit {UNREADABLE}
printf '%s\\0' "$s"
m=$(head -c 6 <"$s" | od -An -tx1 | tr -d ' \\n')
case $m in 504b*)
command -v unzip >/dev/null || exit {NO_PROGRAM}
t=$(unzip -Z1 "$s" {only} {leave} 2>/dev/null) || {{
case $(unzip -v 2>/dev/null) in *Info-ZIP*) exit 48 ;; esac
exit {NO_PROGRAM}; }}
printf '%s\\0%s\\0compared\\0' "$m" "$t"
printf '%s\\n' "$t" | while IFS= read -r f; do
case $f in
*/) [ -d "$d/$f" ] ;;
*) if [ -h "$d/$f" ]; then [ "$(readlink -- "$d/$f")" = "$(unzip -p "$s" "$f")" ]
else [ -f "$d/$f" ] && unzip -p "$s" "$f" | cmp -s - "$d/$f"; fi ;;
esac || printf '%s\\n' "$f"
done ;;
*)
command -v tar >/dev/null || exit {NO_PROGRAM}
case $m in 1f8b*) z=-z ;; 425a68*) z=-j ;; fd377a58*) z=-J ;; 28b52ffd*) z=--zstd ;; *) z= ;; esac
t=$(tar $z -tf "$s" {options} {members}) || exit 48
printf '%s\\0%s\\0' "$m" "$t"
case $(tar --version 2>/dev/null) in
*GNU*) printf 'compared\\0'; tar $z -df "$s" -C "$d" {options} {members} 2>&1 ;;
*) printf '\\0' ;;
esac ;;
esac
printf '\\0'"""
