"""Text of the scheduled pass: time, processes, and what it tells. See ``passscript``. No I/O."""

from __future__ import annotations

#: Where it looks, who it is, and how a docker is asked that may never answer.
PROCESSES = r"""
export LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
umask 022
lock=$root/lock guard=$root/lock.takeover last=$root/pass.last alone=$root/pass.lock
out=$root/.pass.$$.out err=$root/.pass.$$.err metrics=$root/metrics/klops_pass.prom
child= born= ours= mine= id= run= entered= renewal=0

uptime() { read -r up idle </proc/uptime && up=${up%%.*}; }
# start ticks of a process, nothing for one that has ended: with its pid they are its identity
birth() {
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
    set -f
    set -- ${stat##*) }
    case $1 in Z|X) ;; *) echo "${20}" ;; esac
}
lives() { [ -n "$born" ] && [ "$(birth "$child")" = "$born" ]; }
nap() { sleep "$pause" 2>/dev/null || sleep 1; }
# end our own child: TERM, then KILL; one that neither ends is left
end_child() {
    for signal in TERM KILL; do
        lives || return 0
        signalled=$(reached "$child")
        kill -s "$signal" "$child" 2>/dev/null && sent=sent || sent=gone
        note signal "$signalled, \"signal\": \"SIG$signal\", \"why\": \"$1\", \"outcome\": \"$sent\""
        uptime; kill_due=$((up + grace))
        while lives && [ "$up" -le "$kill_due" ]; do nap; uptime; done
    done
}
# bash would tell of the end of one that was killed
drop_child() { { end_child "$1"; lives || wait "$child"; born=; } 2>/dev/null; }
# who a child is, for the line that tells of a signal to it
reached() {
    ns=$(readlink "/proc/$1/ns/pid") ns=${ns#*\[}
    printf '"unit": "", "pid": %s, "start": %s, "boot": "%s", "ns": %s, "name": "%s", "how": "%s"' \
        "$1" "$born" "$boot" "${ns%]}" "$(quoted <"/proc/$1/comm")" "kill: an own child"
} 2>/dev/null
# bounded SECONDS WORDS...: docker with these words; what it says in $out and $err, status 124: no answer
bounded() {
    [ -z "$ours" ] || renew || lost_lock
    uptime; bound=$1 end=$((up + $1))
    shift
    engine "$@" </dev/null >"$out" 2>"$err" &
    child=$!
    born=$(birth "$child")
    while lives; do
        if [ "$up" -ge "$end" ]; then
            drop_child "no answer within $bound s"
            echo "no answer within $bound s" >"$err"
            return 124
        fi
        if [ -n "$ours" ] && [ "$up" -ge "$renewal" ]; then
            renew || { drop_child "the lock is lost"; lost_lock; }
        fi
        nap; uptime
    done
    born=
    wait "$child"
}
# drops the part of a character that a cut has left at the end of a line, of one of two, three or four bytes
whole=$(printf 's/[\300-\337]$//;s/[\340-\357][\200-\277]\\{0,1\\}$//;s/[\360-\367][\200-\277]\\{0,2\\}$//')
clean() { tr '\n' ' ' | tr -d '\000-\037\177' | cut -c 1-300 | sed "$whole;s/ *\$//"; }
said() { clean <"$err"; }
quoted() { clean | sed 's/[\\"]/\\&/g'; }
"""

#: What is left behind by a pass: a line of the log, one of JSON, numbers, and notes of what it did.
TELLING = r"""
outcome=failed why="ended before it was done" started=false supervised=false ended=0 left=0 view=
# what went wrong so far, a line each
trouble=
# make_room FILE: one that has grown long becomes FILE.1
make_room() {
    size=$(wc -c 2>/dev/null <"$1") && [ "$size" -gt "$longest" ] && mv -f -- "$1" "$1.1"
}
# to its own log, which nobody else has to rotate; where that can't be written, to whoever called
log_there() {
    (
        umask 077
        mkdir -p -- "$root/log"
        make_room "$root/log/pass.log"
        : >>"$root/log/pass.log"
    ) 2>/dev/null && exec >>"$root/log/pass.log" 2>&1
}
# stop OUTCOME WHY: that is how it ended
stop() { outcome=$1 why=$2; [ "$1" != failed ]; exit; }
# note EVENT FIELDS: a line where the runs and the supervisor write theirs
note() {
    line="{\"at\": $(date +%s), \"by\": \"pass\", \"event\": \"$1\", \"run\": \"$run\","
    line="$line \"container\": $json_name, \"id\": \"$id\", $2}"
    ( umask 077; printf '%s\n' "$line" >>"$root/audit.jsonl" ) 2>/dev/null ||
        echo "klops: not noted in $root/audit.jsonl: $line" >&2
}
# complain EVENT TEXT: something failed; the same trouble is noted once, not every minute
complain() {
    case "
$trouble" in *"
$2
"*) return ;; esac
    trouble="$trouble$2
"
    [ -z "$id" ] || grep -qxF -e "$2" -- "$last" 2>/dev/null ||
        note "$1" "\"error\": \"$(printf '%s' "$2" | quoted)\""
}
troubles() { printf '%s' "$trouble" | tr '\n' ';' | sed 's/;$//; s/;/; /g'; }
# give_up EVENT TEXT: it failed, and nothing more can be done
give_up() { complain "$1" "$2"; stop failed "$(troubles)"; }
numbers() {
    echo "# HELP klops_pass_timestamp_seconds When klops' scheduled pass ended last."
    echo "# TYPE klops_pass_timestamp_seconds gauge"
    echo "klops_pass_timestamp_seconds{root=\"$prom_root\"} $1"
    echo "# HELP klops_pass_seconds How long it took."
    echo "# TYPE klops_pass_seconds gauge"
    echo "klops_pass_seconds{root=\"$prom_root\"} $2"
    echo "# HELP klops_pass_outcome How it ended: 1 for that one."
    echo "# TYPE klops_pass_outcome gauge"
    for one in ok did skipped failed; do
        is=0; [ "$one" != "$outcome" ] || is=1
        echo "klops_pass_outcome{root=\"$prom_root\",outcome=\"$one\"} $is"
    done
    echo "# HELP klops_pass_processes Orphans that it ended, and those that it could not end."
    echo "# TYPE klops_pass_processes gauge"
    echo "klops_pass_processes{root=\"$prom_root\",outcome=\"ended\"} $ended"
    echo "klops_pass_processes{root=\"$prom_root\",outcome=\"left\"} $left"
}
# how it ended: for who reads the log, for klops cron status, for what collects numbers
record() {
    at=$(date +%s); uptime; seconds=$((up - began))
    line="$(date '+%Y-%m-%d %H:%M:%S') klops: $outcome: $why"
    if [ "$outcome" = failed ]; then echo "$line" >&2; else echo "$line"; fi
    json="{\"schema\": 1, \"at\": $at, \"seconds\": $seconds, \"run\": \"$run\", \"outcome\": \"$outcome\","
    json="$json \"why\": \"$(printf '%s' "$why" | quoted)\", \"started\": $started,"
    json="$json \"supervised\": $supervised, \"ended\": $ended, \"left\": $left, \"view\": \"$view\"}"
    { make_room "$root/pass.jsonl"; printf '%s\n' "$json" >>"$root/pass.jsonl"; } 2>/dev/null &&
        mkdir -p -- "${metrics%/*}" && numbers "$at" "$seconds" >"$metrics.$$" &&
        mv -f -- "$metrics.$$" "$metrics" || echo "klops: $root/pass.jsonl and $metrics can't be written" >&2
}
"""
