"""Scripts for shells that ``docker exec`` starts: one that ends with its caller, one that outlives it.

``docker exec`` leaves what it started running when its client is gone, whether that was killed or lost its
link. The one thing that reaches the container then is the end of standard input. So the shell keeps that for
itself and watches it: when it ends, the shell's process group is ended, TERM first. The command gets the
bytes it was given, then the end of its input, from a pipe.

Pure: text and numbers in, text out.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from klops.remote.noting import noting
from klops.remote.script import command_lines, framed

#: Tenths of a second between TERM and KILL.
GRACE = 20

# What each process of the group does. The shell (its pid is $$, and the group's number) waits for a pipeline:
#   the guard, which ignores TERM and waits for
#       the reader: says who it is, hands over the input, then reads until the input ends;
#   the runner, which runs the command and then kills the reader (known by pid and start time), so that the
#       guard ends too.
# When the input ends the reader leaves with 0 and the guard ends the group. All are waited for by a parent of
# their own, so that none is left as a zombie to a main process that takes no care of orphans. The shell and
# the runner survive TERM by a trap (an ignored signal would be ignored by the command too): they have to tell
# how the command ended. Without a readable /proc nothing is watched.
_GUARDED = """\
_g=0; read -r _k 2>/dev/null </proc/$$/stat && set -- ${_k##*) } && _g=$3 _t=${20}; set --; unset _k
exec 3<&0; trap : TERM
{
trap '' TERM
(
_p=0; read -r _k 2>/dev/null </proc/self/stat && [ "$_g" = $$ ] && { _p=${_k%% *}; set -- ${_k##*) }; }
echo "$_p ${20:-0}"
@FEED@[ "$_p" != 0 ] || exit 1
exec >/dev/null
while read -r _k <&3; do :; done
) &
exec >/dev/null 2>&1
wait $! || exit 0
read -r _p _k </proc/self/stat
others() {
for f in /proc/[0-9]*/stat; do
read -r s 2>/dev/null <"$f" || continue
o=${s%% *}; set -- ${s##*) }
[ "$3" = "$_g" ] && [ "$1" != Z ] && [ "$o" != $$ ] && [ "$o" != "$_p" ] && return 0
done
return 1
}
@NOTING@
told() { noted "$1" $$ "$_t" "$_g" 'the caller of a command has gone' "the sender's own group" "$2"; }
kill -s TERM -- "-$_g"
told TERM sent
n=0
while others; do
n=$((n+1))
# KILL ends this shell too
[ $n -le @GRACE@ ] || {
told KILL sending
kill -s KILL -- "-$_g"
}
sleep 0.1 || sleep 1
done
} | {
trap : TERM; exec 3<&-; read -r _w _s
(
@BODY@
)
_r=$?; exec 2>/dev/null
read -r _k </proc/$_w/stat && set -- ${_k##*) } && [ "${20}" = "$_s" ] && kill -s KILL "$_w"
exit $_r
}
exit $?
"""


def guarded(body: str, marker: str, given: int, audit_log: str = "") -> bytes:
    """The script that carries out ``body`` and ends it when standard input ends.

    Each signal that it sends then is a line in ``audit_log`` ("": there is none). It is to be followed by
    ``given`` bytes of input for the body, on a standard input that stays open.
    """
    feed = f"head -c {given} <&3 2>/dev/null\n" if given else ""
    text = _GUARDED.replace("@FEED@", feed).replace("@GRACE@", str(GRACE))
    return framed(marker, text.replace("@NOTING@", noting(audit_log)).replace("@BODY@", body))


def guarded_command(
    argv: Sequence[str],
    marker: str,
    given: int,
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    audit_log: str = "",
) -> bytes:
    """The script that runs one command, which ends when standard input does."""
    return guarded(command_lines(argv, cwd=cwd, env=env), marker, given, audit_log)


#: Makes the log ($2) and the script ($3, from standard input) of a command ($1) that is to be started. A log
#: of more than $4 bytes (0: it may be of any length) becomes LOG.1, in place of the one before.
PREPARE = """\
command -v "$1" >/dev/null || { echo 'no such program' >&2; exit 127; }
umask 077
[ "$4" = 0 ] || [ ! -e "$2" ] || [ "$(wc -c <"$2")" -le "$4" ] || mv -f -- "$2" "$2.1"
: >>"$2" && cat >"$3"
"""

#: Removes all but the newest $2 of the logs in a folder ($1) whose names begin with $3 and a time.
OLD_LOGS = """\
cd -- "$1" 2>/dev/null || exit 0
set -- "$2" "$3"*.log
while [ $# -gt $(($1+1)) ]; do rm -f -- "$2"; n=$1; shift 2; set -- "$n" "$@"; done
"""

#: Waits, $2 tenths of a second at most, until the script ($1) has removed itself: it has said then who it is,
#: and becomes the command. Who removes it first decides: once that is done here it never becomes one.
TELL = """\
n=0; while [ -e "$1" ] && [ $n -lt "$2" ]; do n=$((n+1)); sleep 0.1 || sleep 1; done
if rm -- "$1" 2>/dev/null; then rm -f -- "$1.who"; echo 'it was never begun' >&2; exit 1; fi
cat -- "$1.who"; r=$?; rm -f -- "$1.who"; exit $r
"""
TELL_TRIES = 100


def launch_script(argv: Sequence[str], file: str, *, log: str, env: Mapping[str, str] | None = None) -> bytes:
    """The script in ``file`` that says who it is, and becomes ``argv`` with its output at the end of ``log``.

    exec keeps pid and start time. As the process that docker exec started, it leads a session of its own and
    is waited for by the engine: its end leaves no zombie.
    """
    who, new = shlex.quote(f"{file}.who"), shlex.quote(f"{file}.new")
    tell = f'read -r k </proc/$$/stat && set -- $k && echo $$ "$5" "${{22}}" >{new} && mv -- {new} {who}'
    claim = f"rm -- {shlex.quote(file)} 2>/dev/null </dev/null"
    text = (
        f"(umask 077; {tell}) || exit\n{claim} || {{ rm -f -- {who}; exit 1; }}\n"
        f"{command_lines(argv, env=env)} </dev/null >>{shlex.quote(log)} 2>&1\n"
    )
    return text.encode("utf-8", "surrogateescape")
