"""The scripts of the lock: what one remote command does to ``ROOT/lock``, and notes of it in the same go.

Each is called with ``$1`` the root. Exit statuses beside 0: :data:`HELD`, :data:`NOT_OURS`, 73 and 74 where
it can't be done.
"""

from __future__ import annotations

from klops.remote.audit import LONGEST

#: Somebody has it: boot id, uptime and the file's content are on standard output.
HELD = 17
#: It is not, or no longer, the lock that was meant.
NOT_OURS = 18

# The audit file may be another user's, or its disk full: the lock is one all the same, and why nothing was
# noted is printed. What an earlier write left without its end is closed first. find counts blocks of 512.
_NOTE = rf"""
export LC_ALL=C
root=$1 lock=$1/lock
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
# The messages of commands are looked at, so they are asked for in English. Written by cat: a shell's own
# printf may say "I/O error" of a full disk.
_TAKE = (
    _NOTE
    + r"""
( umask 022; mkdir -p -- "$root" ) || exit 73
read -r up idle </proc/uptime && read -r boot </proc/sys/kernel/random/boot_id || exit 74
whole=${up%%.*}
doc="$2, \"boot_id\": \"$boot\", \"expires\": $((whole + $3)).${up##*.}, \"taken\": $(date +%s)}"
umask 022
make_lock() { ( set -C; { printf '%s\n' "$doc" | cat || { rm -f -- "$lock"; exit 74; }; } >"$lock" ); }
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
    case $why in *"No space left"*|*"quota exceeded"*) echo "$why" >&2; exit 74 ;; esac
    [ -w "$root" ] || { echo "$why" >&2; exit 74; }
}
"""
    + _SHOW
)
# One at a time may do away with another's lock, behind a folder that only one can make: otherwise the second
# would remove the lock that the first has just made. A folder left by a crash goes after a minute.
_GUARD = r"""
guard=$lock.takeover
find "$guard" -prune -mmin +1 -exec rmdir -- {} \; 2>/dev/null
why=$(mkdir -- "$guard" 2>&1) || case $why in
*"File exists"*) exit 17 ;;
*) echo "$why" >&2; exit 74 ;;
esac
trap 'rm -f -- "$lock.$$"; rmdir -- "$guard"' EXIT
trap 'exit 143' HUP INT TERM
"""
# $4 the content that was judged dead, $5 the line on that, $6 that of the run that begins. There is always a
# lock, so whoever comes along meanwhile doesn't get it without a line in the audit file. An owner who comes
# back to life meanwhile finds at his next renewal that he lost the lock.
TAKE_OVER = (
    _TAKE
    + _GUARD
    + r"""
[ "$(cat -- "$lock" 2>/dev/null)" = "$4" ] || exit 17
printf '%s\n' "$doc" | cat >"$lock.$$" && mv -f -- "$lock.$$" "$lock" || exit 74
note "$5"
note "$6"
exit 0
"""
)
# $4 the run whose lock it is.
RENEW = (
    _TAKE
    + r"""
grep -qF -- "\"run\": \"$4\"" "$lock" 2>/dev/null || exit 18
printf '%s\n' "$doc" >"$lock.$4" && mv -f -- "$lock.$4" "$lock"
"""
)
# $2 the run whose lock it is, $3 its line. Noted first: once the lock is gone the next run writes its own.
# What a renewal has left that was ended in the middle goes too.
RELEASE = (
    _NOTE
    + r"""
grep -qF -- "\"run\": \"$2\"" "$lock" 2>/dev/null || exit 18
note "$3"
rm -f -- "$lock" "$lock.$2"
"""
)
# $2 the run whose lock it is, "" for a file that a crash left empty, $3 the line on it.
BREAK = (
    _NOTE
    + _GUARD
    + r"""
[ -e "$lock" ] || exit 18
if [ -n "$2" ]; then grep -qF -- "\"run\": \"$2\"" "$lock"; else [ ! -s "$lock" ]; fi || exit 18
rm -f -- "$lock" || exit 74
note "$3"
exit 0
"""
)
