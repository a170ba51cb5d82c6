"""Text of the scheduled pass: who may act on the host, and that passes don't overlap. See ``passscript``.

No I/O.
"""

from __future__ import annotations

#: The lock that the runs of klops have too, and a pass.lock that keeps passes apart from their beginning.
LOCK = r"""
content() {
    cat -- "$lock" 2>/dev/null | sed -n 's/.*"boot_id": *"\([^"]*\)", *"expires": *\([0-9]*\).*/\1 \2/p'
}
holder() {
    cat -- "$lock" 2>/dev/null | clean |
        sed 's/.*"who": *"\(.*\)", *"from": *"\(.*\)", *"run": *"\([^"]*\)".*/run \3 of \1 on \2/'
}
# whether the lock is of a pass that was killed: the name of its run says which process that was
killed_pass() {
    of=$(cat -- "$lock" 2>/dev/null | sed -n "s/.*\"run\": *\"$run_of_pass\([0-9]*-[0-9]*\)\".*/\1/p")
    [ -n "$of" ] && [ "$(birth "${of%-*}")" != "${of#*-}" ]
}
# whether the lock there may be taken over: expired, of another boot, or left by a crash
dead() {
    [ -s "$lock" ] || { [ -n "$(find "$lock" -mmin +1 2>/dev/null)" ]; return; }
    now=$(content)
    [ -n "$now" ] && uptime || return 1
    [ "${now% *}" != "$boot" ] || [ "${now#* }" -lt "$up" ] || killed_pass
}
make_lock() {
    ( set -C; { printf '%s\n' "$doc" || { rm -f -- "$lock"; exit 1; }; } >"$lock" ) 2>/dev/null
}
document() {
    uptime
    doc="{\"schema\": 1, \"who\": \"$(id -un | quoted)\", \"from\": \"$(uname -n | quoted)\","
    doc="$doc \"run\": \"$run\", \"boot_id\": \"$boot\","
    doc="$doc \"expires\": $((up + lifetime)).0, \"taken\": $(date +%s)}"
    renewal=$((up + near))
}
place_lock() { { printf '%s\n' "$doc" >"$lock.$run" && mv -f -- "$lock.$run" "$lock"; } 2>/dev/null; }
our_lock() { grep -qF -- "\"run\": \"$run\"" "$lock" 2>/dev/null; }
# behind the link that runs of klops make too: only one at a time does away with a dead lock. It points to
# boot id and uptime, by which one that a crash has left is known
enter() {
    there=$(readlink "$guard" 2>/dev/null)
    uptime
    if [ -n "$there" ]; then
        since=${there##*.}
        case $since in ''|*[!0-9]*) since=-1 ;; esac
        [ "${there%.*}" = "$boot" ] && [ "$since" -le "$up" ] &&
            [ $((up - since)) -le "$guarded" ] && return 1
        # by way of a name of its own: of two that find it the second would else remove the link that the
        # first has just made
        mv -f -- "$guard" "$lock.$run" && {
            taken=$(readlink "$lock.$run")
            [ "$taken" = "$there" ] || ln -s "$taken" "$guard"
            rm -f -- "$lock.$run"
            [ "$taken" = "$there" ] || return
        }
    fi
    [ ! -d "$guard" ] || rmdir -- "$guard" || return
    ln -s "$boot.$up" "$guard" && entered=yes
} 2>/dev/null
leave() { [ -z "$entered" ] || rm -f -- "$guard"; entered=; }
# whether our own lock may be touched: dead, or nearly, it is one that others may be after
ours_alone() {
    now=$(content)
    uptime
    [ "${now% *}" = "$boot" ] && [ "${now#* }" -gt $((up + near)) ] || enter || return
    our_lock
}
renew() {
    our_lock && ours_alone && document && place_lock
    set -- $?
    leave
    return "$1"
}
take() {
    document
    make_lock && { ours=yes; return; }
    dead || return
    enter || return
    if dead; then
        was=$(cat -- "$lock" 2>/dev/null | quoted)
        place_lock && ours=yes
    fi
    leave
    [ -z "$ours" ] || note lock-taken-over "\"previous\": \"$was\""
    [ -n "$ours" ]
}
# leave the pass as the lock could not be taken: another's, or nobody's
not_taken() {
    who=$(holder)
    [ -z "$who" ] || stop skipped "$who has the lock"
    [ ! -e "$lock" ] && [ ! -h "$guard" ] || stop skipped "another run is just taking the lock"
    stop failed "the lock can't be written in $root: is the disk full?"
}
# leave it as the lock could not be renewed
lost_lock() {
    ! our_lock || stop failed "the lock can't be renewed in $root: is the disk full?"
    stop skipped "another run has taken the lock meanwhile"
}
# whether the pass that made pass.lock is no more
pass_gone() {
    other=$(readlink "$alone" 2>/dev/null) || return 0
    ticks=${other##*.} pid=${other%.*} pid=${pid##*.}
    [ "${other%%.*}" != "$boot" ] || [ "$(birth "$pid")" != "$ticks" ]
}
# one pass at a time, from its first question on: a link that only one can make, and that names its process.
# Nothing inherits it, and once its process is gone it is nobody's
only_one() {
    me=$boot.$$.$(birth $$) pid=
    ln -s "$me" "$alone" 2>/dev/null && { mine=yes; return; }
    pass_gone || return
    pid=
    enter || return
    if pass_gone; then
        pid=
        rm -f -- "$alone"
        ln -s "$me" "$alone" 2>/dev/null && mine=yes
    fi
    leave
    [ -n "$mine" ]
}
# leave the pass as it is not the only one
not_alone() {
    [ -z "$pid" ] || stop skipped "another pass is at work: process $pid"
    [ ! -h "$alone" ] && [ ! -h "$guard" ] || stop skipped "another run is just taking over a lock"
    stop failed "$alone can't be made"
}
"""
