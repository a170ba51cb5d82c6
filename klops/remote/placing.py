"""How a file gets to its place on a host: written beside it under a name of its own, then renamed.

The shell functions of :data:`PLACING` are shared by everything that puts files, links or copies somewhere.
Nobody can guess the name beside the place, and it is made so that nothing that stands there is taken over.
Owner and mode are there before the name is. POSIX sh: dash and busybox run it.
"""

from __future__ import annotations

import hashlib

from klops.errors import ChangedMeanwhile, CommandFailed
from klops.remote.base import DEFAULT_TIMEOUT, Completed, Reply

#: What was seen of a path where nothing was.
NOTHING = "absent"
#: Exit status of a script that found something else in its place than what was seen there.
CHANGED = 75

#: Shell functions.
#:
#: ``beside FOLDER [-d]``: a new file in it (0600; with -d a folder, 0700) as ``$t``, gone with the shell.
#: ``digest``: sha256 of its input, nothing where no program computes it.
#: ``as_seen SEEN PATH``: whether it still is what was seen: a file's sha256, ``absent``, "" for anything.
#: ``place NEW PATH``: rename, never into a folder that stands there; a link makes way.
PLACING = r"""
beside() {
  umask 077
  t=
  trap '[ -z "$t" ] || rm -rf -- "$t"' EXIT
  trap 'exit 143' HUP INT TERM
  if command -v mktemp >/dev/null; then
    t=$(mktemp ${2:+"$2"} "$1/.klops-XXXXXXXX")
    return
  fi
  n=0
  while [ $n -lt 50 ]; do
    c="$1/.klops-$$-$n"
    if [ -n "$2" ]; then mkdir -- "$c"; else ( set -C; : >"$c" ); fi 2>/dev/null && { t=$c; return; }
    n=$((n+1))
  done
  echo "nothing can be made in $1" >&2
  return 73
}
digest() {
  if command -v sha256sum >/dev/null; then sha256sum
  elif command -v shasum >/dev/null; then shasum -a 256
  fi | cut -c1-64
}
as_seen() {
  [ -n "$1" ] || return 0
  if [ -f "$2" ]; then
    s=$(digest <"$2")
    [ -z "$s" ] || [ "$s" = "$1" ]
  elif [ -e "$2" ] || [ -h "$2" ]; then return 1
  else [ "$1" = absent ]
  fi
}
place() {
  # a mv without -T says so, and any other fault is said by the second
  mv -fT -- "$1" "$2" 2>/dev/null && return
  if [ -h "$2" ]; then
    if [ -d "$2" ]; then rm -f -- "$2" || return; fi
  elif [ -d "$2" ]; then
    echo "$2 is a directory" >&2
    return 73
  fi
  mv -f -- "$1" "$2"
}
"""

#: ``sh -c PUT NAME PATH MODE SIZE OWNER``: what was seen (one line) and a file's content on standard input.
#: Says what it has become, as a PathRead does. An owner that can't be given isn't; the listing shows it.
PUT = (
    PLACING
    + r"""
p=$1 d=$(dirname -- "$1")
IFS= read -r seen || exit 74
[ -d "$p" ] && { echo "$p is a directory" >&2; exit 73; }
( umask 022; mkdir -p -- "$d" ) || exit 73
beside "$d" || exit 73
cat >"$t" || exit 74
n=$(wc -c <"$t") || exit 74
[ "$n" -eq "$3" ] || { echo "$n of $3 bytes arrived" >&2; exit 74; }
[ -z "$4" ] || chown -h -- "$4" "$t" 2>/dev/null
chmod -- "$2" "$t" || exit 73
as_seen "$seen" "$p" || exit 75
place "$t" "$p" || exit 73
LC_ALL=C ls -lnd -- "$p" && LC_ALL=C ls -ld -- "$p"
exit 0
"""
)


def digest_of(data: bytes) -> str:
    """What was seen of a path, when these bytes were."""
    return hashlib.sha256(data).hexdigest()


def put_argv(path: str, size: int, mode: int, owner: str) -> list[str]:
    """The argv that writes a file of ``size`` bytes from its standard input."""
    if not path.startswith("/"):
        raise ValueError(f"not an absolute path: {path}")
    return ["sh", "-c", PUT, "klops-put", path, f"{mode:05o}", str(size), owner]


def put_input(data: bytes, unless_changed: str) -> bytes:
    """Its standard input. The digest travels there: of a file with a password it is nothing for an argv."""
    return unless_changed.encode() + b"\n" + data


def put_timeout(data: bytes) -> float:
    """Seconds: at least 1 MiB a second, beside the usual time for the rest."""
    return DEFAULT_TIMEOUT + len(data) / 2**20


def put_reply(name: str, path: str, done: Completed) -> Reply:
    """What the file has become. Raises :class:`ChangedMeanwhile` and :class:`CommandFailed`."""
    if done.rc == CHANGED:
        raise changed_meanwhile(f"{name}: {path}")
    if done.rc:
        raise CommandFailed(
            f"{name}: {path} was not written: {done.error_text.strip()}", rc=done.rc, stderr=done.error_text
        )
    return Reply(0, done.stdout, done.stderr)


def changed_meanwhile(what: str) -> ChangedMeanwhile:
    """The error for something that isn't what a plan was made of."""
    return ChangedMeanwhile(
        f"{what} was changed by somebody else since it was read; nothing was written",
        hint="see who writes there, and run it again",
    )
