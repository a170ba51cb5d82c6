"""The pass: a POSIX shell script that brings back what docker leaves down on a host. No I/O.

docker doesn't try again when a card's node was missing as it started a container, and nothing starts the
supervisor of an adopted container again after a restart. ``sh ROOT/pass`` does both, whoever runs it: klops
puts it there, and it is up to the host's cron to call it, as the user that klops works as there. It needs
docker and a shell, and Python only in the container.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from klops.commands.agent import hold, verb
from klops.commands.containerspec import MANAGED_LABEL

#: Seconds for a question to the engine or the agent, and for the start of a container.
ASK, START = 15, 60
#: Seconds until a supervisor that was started must answer.
WAIT = 20
#: Seconds a docker that doesn't answer gets to end by itself before it is killed.
GRACE = 2
#: Seconds between two looks whether docker is done; where sleep takes no fractions, they are 1.
PAUSE = "0.1"
#: How the name of a pass begins, where a run has its own in the lock.
RUN = "pass-"
#: Seconds that a guard of the lock counts, as the runs of klops have it.
GUARDED = 60
#: Seconds of its lifetime a lock must have left to be renewed or given back without that guard.
NEAR = 20
#: Bytes after which a log makes room: it becomes LOG.1, in place of the one before.
LONGEST = 1 << 20
#: Seconds the lock is taken for, anew before each thing that is done under it: longer than any of them.
LIFETIME = 90

#: What is read of a container, in one line; its name follows, and the nodes of its devices on the host.
_FORMAT = (
    '{{.Id}} {{.State.Status}} {{or .HostConfig.RestartPolicy.Name "no"}}'
    " {{if .State.Error}}failed{{else}}clean{{end}}"
    f' {{{{if and (eq (index .Config.Labels "{MANAGED_LABEL}") "1")'
    f' (eq (index .HostConfig.LogConfig.Config "labels") "{MANAGED_LABEL}")}}}}'
    "made{{else}}other{{end}}"
    '{{"\\n"}}{{.Name}}{{range .HostConfig.Devices}}{{"\\n"}}{{.PathOnHost}}{{end}}'
)

#: ``sh -c THIS LOG COMMAND...``: the command, and what it says at the end of its log.
_LOGGED = (
    f'umask 077; size=$(wc -c 2>/dev/null <"$0") && [ "$size" -gt {LONGEST} ] && mv -f -- "$0" "$0.1";'
    ' exec "$@" </dev/null >>"$0" 2>&1'
)

_HEAD = """\
#!/bin/sh
# Written by klops, and written anew by klops up when its settings change: don't edit it.
# Starts the container once the card nodes are there that docker missed when it tried, and the supervisor of
# an adopted container. Leaves alone what was stopped by hand, and all while a run of klops has the lock.
"""

_BODY = r"""
export LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
umask 022
lock=$root/lock guard=$root/lock.takeover last=$root/pass.last out=$root/.pass.$$.out err=$root/.pass.$$.err
child= born= ours= id= run= entered=

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
        kill -s "$signal" "$child" 2>/dev/null
        uptime; kill_due=$((up + grace))
        while lives && [ "$up" -le "$kill_due" ]; do nap; uptime; done
    done
}
# bounded SECONDS WORDS...: docker with these words; what it says in $out and $err, status 124: no answer
bounded() {
    [ -z "$ours" ] || renew || exit 0
    uptime; bound=$1 end=$((up + $1))
    shift
    engine "$@" </dev/null >"$out" 2>"$err" &
    child=$!
    born=$(birth "$child")
    while lives; do
        if [ "$up" -ge "$end" ]; then
            # bash would tell of the end of one that was killed
            { end_child; lives || wait "$child"; } 2>/dev/null
            born=
            echo "no answer within $bound s" >"$err"
            return 124
        fi
        nap; uptime
    done
    born=
    wait "$child"
}
clean() { tr '\n' ' ' | tr -d '\000-\037\177' | cut -c 1-300 | sed 's/ *$//'; }
said() { clean <"$err"; }
quoted() { clean | sed 's/[\\"]/\\&/g'; }
# note EVENT FIELDS: a line where the runs and the supervisor write theirs, else in a file of our own
note() {
    line="{\"at\": $(date +%s), \"by\": \"pass\", \"event\": \"$1\", \"run\": \"$run\","
    line="$line \"container\": $json_name, \"id\": \"$id\", $2}"
    (
        umask 077
        { printf '%s\n' "$line" >>"$root/audit.jsonl"; } 2>/dev/null || {
            size=$(wc -c <"$root/pass.log") && [ "$size" -gt "$longest" ] &&
                mv -f -- "$root/pass.log" "$root/pass.log.1"
            printf '%s\n' "$line" >>"$root/pass.log"
        }
    ) 2>/dev/null
}
# complain EVENT TEXT: the same trouble is told once, not every minute
complain() {
    [ "$(cat -- "$last" 2>/dev/null)" = "$2" ] && exit 1
    { printf '%s\n' "$2" >"$last"; } 2>/dev/null
    echo "klops: $2" >&2
    [ -z "$id" ] || note "$1" "\"error\": \"$(printf '%s' "$2" | quoted)\""
    exit 1
}
content() {
    cat -- "$lock" 2>/dev/null | sed -n 's/.*"boot_id": *"\([^"]*\)", *"expires": *\([0-9]*\).*/\1 \2/p'
}
# whether the lock there is may be taken over: expired, of another boot, or left empty by a crash
dead() {
    [ -s "$lock" ] || { [ -n "$(find "$lock" -mmin +1 2>/dev/null)" ]; return; }
    now=$(content)
    [ -n "$now" ] && uptime || return 1
    [ "${now% *}" != "$boot" ] || [ "${now#* }" -lt "$up" ]
}
make_lock() {
    ( set -C; { printf '%s\n' "$doc" || { rm -f -- "$lock"; exit 1; }; } >"$lock" ) 2>/dev/null
}
document() {
    uptime
    doc="{\"schema\": 1, \"who\": \"$(id -un | clean)\", \"from\": \"$(uname -n | clean)\","
    doc="$doc \"run\": \"$run\", \"boot_id\": \"$boot\","
    doc="$doc \"expires\": $((up + lifetime)).0, \"taken\": $(date +%s)}"
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
        rm -f -- "$guard"
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
left() {
    end_child
    [ -z "$ours" ] || ! our_lock || ! ours_alone || rm -f -- "$lock"
    leave
    rm -f -- "$out" "$err" "$lock.$run"
}
nodes_exist() {
    while IFS= read -r node; do [ -z "$node" ] || [ -e "$node" ] || return; done <<EOF
$devices
EOF
}
adopted() { cat -- "$root/adopted.json" 2>/dev/null | sed -n 's/^ *"id": *"\([0-9a-f]*\)".*/\1/p'; }
# whether a supervisor answers in the container; leaves the pass when nobody can be asked
supervised() {
    bounded "$ask" exec "$id" "$@"
    rc=$?
    case $rc,$(cat -- "$out") in
    0,*'"supervisor": {'*) return 0 ;;
    0,*'"supervisor": null'*) return 1 ;;
    esac
    complain agent-silent "the agent in container $name can't be asked: $(said)"
}
# what is to be done, in $task: start, supervise, or nothing
look() {
    task= id=
    bounded "$ask" inspect --type container --format "$format" "$name" || {
        case $(tr '[:upper:]' '[:lower:]' <"$err") in
        *"no such container"*|*"no such object"*|*"with provided prefix"*) return ;;
        esac
        complain docker-silent "docker does not tell about container $name: $(said)"
    }
    { read -r id state policy error made; IFS= read -r called; devices=$(cat); } <"$out"
    [ -n "$made" ] || complain docker-silent "docker tells nothing about container $name: $(said)"
    # where nothing has that name docker takes it for the beginning of an id
    [ "$called" = "/$name" ] || { id=; return 0; }
    [ "$made" = made ] || [ "$id" = "$(adopted)" ] || return 0
    case $state in
    created|exited)
        # stopped by hand it has no error; told to stay down it has no policy
        if [ "$error" = failed ] && [ "$policy" != no ] && nodes_exist; then task=start; fi ;;
    running)
        if [ "$made" != made ] && ! ask_agent; then task=supervise; fi ;;
    esac
}
free() { [ ! -e "$root/recreation.json" ] && { [ ! -e "$lock" ] || dead; }; }
start() {
    if bounded "$starting" start "$id"; then
        note container-started "\"why\": \"a start had failed, and its device nodes are there\""
        echo "klops: container $name was started: all its device nodes are there now"
    else
        complain container-not-started "container $name does not start: $(said)"
    fi
}
supervise() {
    begin || complain supervisor-not-started "no supervisor can be started in container $name: $(said)"
    uptime; due=$((up + answer))
    until ask_agent; do
        uptime
        [ "$up" -lt "$due" ] ||
            complain supervisor-not-started "the supervisor started in container $name does not answer"
        nap
    done
    note supervisor-started "\"why\": \"none was running in the adopted container\""
    echo "klops: the supervisor of container $name was started"
}

trap left EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
read -r boot </proc/sys/kernel/random/boot_id || exit 1
uptime
run=$run_of_pass$$-$up
# what passes have left that were killed
for file in "$root"/.pass.*; do
    of=${file##*/.pass.} of=${of%%.*}
    [ ! -e "$file" ] || [ -e "/proc/$of" ] || rm -f -- "$file"
done
( umask 077; : >"$out" && : >"$err" ) 2>/dev/null || {
    echo "klops: nothing can be written in $root" >&2
    exit 1
}
free || exit 0
look
if [ -n "$task" ]; then
    take || exit 0
    # a run may have had the lock since
    [ ! -e "$root/recreation.json" ] || exit 0
    look
    if [ "$task" = start ]; then start; look; fi
    if [ "$task" = supervise ]; then supervise; fi
fi
rm -f -- "$last"
exit 0
"""


def script(docker: Sequence[str], container: str, python: str, root: str) -> str:
    """The script for one host. ``docker`` is how docker is called, ``python`` the one in the container."""
    # what the builders give after the container: it is named by its id, once that is known
    status = shlex.join(verb((), container, python, root, "status")[2:])
    supervisor = shlex.join(hold(python, root, beside=True))
    log = shlex.quote(f"{root}/log/launcher.log")
    values = {
        "root": root,
        "name": container,
        "json_name": json.dumps(container),
        "format": _FORMAT,
        "ask": str(ASK),
        "starting": str(START),
        "answer": str(WAIT),
        "grace": str(GRACE),
        "pause": PAUSE,
        "lifetime": str(LIFETIME),
        "run_of_pass": RUN,
        "guarded": str(GUARDED),
        "near": str(NEAR),
        "longest": str(LONGEST),
    }
    begin = f'exec -d "$id" sh -c {shlex.quote(_LOGGED)} {log} {supervisor}'
    lines = [
        *(f"{name}={shlex.quote(value)}" for name, value in values.items()),
        f'engine() {{ exec {shlex.join(docker)} "$@"; }}',
        f"ask_agent() {{ supervised {status}; }}",
        f'begin() {{ bounded "$ask" {begin}; }}',
    ]
    return _HEAD + "\n".join(lines) + "\n" + _BODY
