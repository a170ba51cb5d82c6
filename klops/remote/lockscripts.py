"""The scripts of the lock: what one remote command does to ``ROOT/lock``, and notes of it in the same go.

Each is called with ``$1`` the root. Exit statuses beside 0: :data:`HELD`, :data:`NOT_OURS`, 73 and 74 where
it can't be done.
"""

from __future__ import annotations

from klops.commands.hostpass import passscript
from klops.remote.audit import LONGEST

#: Somebody has it: boot id, uptime and the file's content are on standard output. Or somebody is after it
#: just now, behind :func:`guard`.
HELD = 17
#: It is not, or no longer, the lock that was meant.
NOT_OURS = 18
#: Seconds that a guard counts: one left by a crash is nobody's after that.
GUARDED = passscript.GUARDED
#: Seconds of its lifetime a lock must have left to be renewed or given back without a guard.
NEAR = passscript.NEAR


def guard(root: str) -> str:
    """Behind what one at a time does away with a dead lock."""
    return f"{root}/lock.takeover"


# The audit file may be another user's, or its disk full: the lock is one all the same, and why nothing was
# noted is printed. What an earlier write left without its end is closed first. find counts blocks of 512.
_NOTE = rf"""
export LC_ALL=C
root=$1 lock=$1/lock
{{ read -r up idle </proc/uptime && read -r boot </proc/sys/kernel/random/boot_id; }} || exit 74
whole=${{up%%.*}}
note() {{
    [ -n "$1" ] || return 0
    (
        umask 077
        audit=$root/audit.jsonl end=
        long=$(find "$audit" -prune -type f -size +{LONGEST // 512} 2>/dev/null)
        [ -z "$long" ] || mv -f -- "$audit" "$audit.1"
        [ -z "$(tail -c 1 -- "$audit" 2>/dev/null)" ] || end='
'
        printf '%s{{"at": %s, %s\n' "$end" "$(date +%s)" "$1" | cat >>"$audit"
    ) 2>&1
}}
"""
# $2 head of the document (who, from, run), $3 lifetime.
# make_lock: 0 made, 74 no room, else there is one.
# place FILE: the lock becomes the document by way of a new file, or in place where there is no room for one:
# padded, so that nothing of the longer one before is left, and never empty in between.
# The messages of commands are looked at, so they are asked for in English. Written by cat: a shell's own
# printf may say "I/O error" of a full disk.
_TAKE = (
    _NOTE
    + r"""
( umask 022; mkdir -p -- "$root" ) || exit 73
doc="$2, \"boot_id\": \"$boot\", \"expires\": $((whole + $3)).${up##*.}, \"taken\": $(date +%s)}"
umask 022
make_lock() { ( set -C; { printf '%s\n' "$doc" | cat || { rm -f -- "$lock"; exit 74; }; } >"$lock" ); }
place() {
    { printf '%s\n' "$doc" | cat >"$1" && mv -f -- "$1" "$lock"; } && return
    rm -f -- "$1"
    pad=$(($(wc -c <"$lock") - 1)) && [ "$pad" -gt 0 ] && printf "%-${pad}s\n" "$doc" | cat 1<>"$lock"
}
"""
)
# Prints boot id and uptime, then the lock that was found.
_SHOW = r"""
echo "$boot $up"
[ -s "$lock" ] || find "$lock" -mmin +1 2>/dev/null | sed 's/.*/{"abandoned": true}/'
cat -- "$lock" 2>/dev/null
exit 17
"""
# $4 the line of a run that begins.
ACQUIRE = (
    _TAKE
    + r"""
why=$(make_lock 2>&1)
case $? in 0) note "$4"; exit 0 ;; 74) echo "$why" >&2; exit 74 ;; esac
[ -e "$lock" ] || {
    # one that was there is gone by now; whatever else was said, it can't be written
    case $why in *"File exists"*|*"existing file"*) ;; *) echo "$why" >&2; exit 74 ;; esac
}
"""
    + _SHOW
)
# One at a time may do away with another's lock, behind a link that only one can make: otherwise the second
# would remove the lock that the first has just made. It points to boot id and uptime, as the lock has them,
# so that one left by a crash is known whatever the clock says. A folder is of a klops before that.
_ENTER = rf"""
guard={guard("$root")}
enter() {{
    there=$(readlink "$guard" 2>/dev/null)
    if [ -n "$there" ]; then
        since=${{there##*.}}
        case $since in ''|*[!0-9]*) since=-1 ;; esac
        [ "${{there%.*}}" = "$boot" ] && [ "$since" -le "$whole" ] &&
            [ $((whole - since)) -le {GUARDED} ] && exit 17
        # by way of a name of its own: of two that find it the second would else remove the link that the
        # first has just made
        mv -f -- "$guard" "$lock.$$" 2>/dev/null && {{
            was=$(readlink "$lock.$$")
            [ "$was" = "$there" ] || ln -s "$was" "$guard" 2>/dev/null
            rm -f -- "$lock.$$"
            [ "$was" = "$there" ] || exit 17
        }}
    fi
    [ ! -d "$guard" ] || rmdir -- "$guard" || exit 74
    why=$(ln -s "$boot.$whole" "$guard" 2>&1) || case $why in
    *"File exists"*) exit 17 ;;
    *) echo "$why" >&2; exit 74 ;;
    esac
    trap 'rm -f -- "$lock.$$" "$guard"' EXIT
    trap 'exit 143' HUP INT TERM
}}
"""
# Who finds his own lock dead, or nearly, may not be the only one who looks at it.
_OWN = (
    _ENTER
    + rf"""
ours() {{ grep -qF -- "\"run\": \"$1\"" "$lock" 2>/dev/null; }}
enter_if_near() {{
    now=$(sed -n 's/.*"boot_id": *"\([^"]*\)", *"expires": *\([0-9]*\).*/\1 \2/p' "$lock" 2>/dev/null)
    [ "${{now% *}}" = "$boot" ] && [ "${{now#* }}" -gt $((whole + {NEAR})) ] || enter
}}
"""
)
# $4 the content that was judged dead, $5 the line on that, $6 that of the run that begins. There is always a
# lock, so whoever comes along meanwhile doesn't get it without a line in the audit file. An owner who comes
# back to life meanwhile finds at his next renewal that he lost the lock.
TAKE_OVER = (
    _TAKE
    + _ENTER
    + r"""
enter
[ "$(cat -- "$lock" 2>/dev/null)" = "$4" ] || exit 17
place "$lock.$$" || exit 74
note "$5"
note "$6"
exit 0
"""
)
# $4 the run whose lock it is.
RENEW = (
    _TAKE
    + _OWN
    + r"""
ours "$4" || exit 18
enter_if_near
ours "$4" || exit 18
place "$lock.$4" || exit 74
exit 0
"""
)
# $2 the run whose lock it is, $3 its line. Noted first: once the lock is gone the next run writes its own.
# What a renewal has left that was ended in the middle goes too.
RELEASE = (
    _NOTE
    + _OWN
    + r"""
ours "$2" || exit 18
enter_if_near
ours "$2" || exit 18
note "$3"
rm -f -- "$lock" "$lock.$2"
"""
)
# $2 the run whose lock it is, "" for a file that a crash left empty, $3 the line on it.
BREAK = (
    _NOTE
    + _OWN
    + r"""
enter
[ -e "$lock" ] || exit 18
if [ -n "$2" ]; then ours "$2"; else [ ! -s "$lock" ]; fi || exit 18
rm -f -- "$lock" || exit 74
note "$3"
# a renewal that had looked just before puts it back once more, and then never again
sleep 1
[ -z "$2" ] || ! ours "$2" || rm -f -- "$lock" || exit 74
exit 0
"""
)
