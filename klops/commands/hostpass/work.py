"""Text of the scheduled pass: what it looks for, brings back and cleans up. See ``passscript``. No I/O."""

from __future__ import annotations

#: What is there, and what was left down.
BRINGING_BACK = r"""
nodes_exist() {
    while IFS= read -r node; do [ -z "$node" ] || [ -e "$node" ] || return; done <<EOF
$devices
EOF
}
# whether a supervisor answers in the container: 0 one does, 1 there is none, 2 nobody can be asked
supervised() {
    bounded "$ask" exec "$id" "$@"
    rc=$?
    case $rc,$(cat -- "$out") in
    0,*'"supervisor": {'*) return 0 ;;
    0,*'"supervisor": null'*) return 1 ;;
    esac
    silent=yes
    complain agent-silent "the agent in container $name can't be asked: $(said)"
    return 2
}
# what is to be done, in $task: start, supervise, or nothing; in $kind whose the container is, if it is
# klops'; and in $down why nothing is done about one that doesn't run, or isn't klops'
look() {
    task= id= kind= state= down=
    bounded "$ask" inspect --type container --format "$format" "$name" || {
        case $(tr '[:upper:]' '[:lower:]' <"$err") in
        *"no such container"*|*"no such object"*|*"with provided prefix"*) down="there is none"; return ;;
        esac
        give_up docker-silent "docker does not tell about container $name: $(said)"
    }
    { read -r id state policy error made image ipc; IFS= read -r called; devices=$(cat); } <"$out"
    [ -n "$made" ] || give_up docker-silent "docker tells nothing about container $name: $(said)"
    # where nothing has that name docker takes it for the beginning of an id
    [ "$called" = "/$name" ] || { id= state= down="there is none"; return 0; }
    if [ "$made" = made ]; then kind=made; elif [ "$id" = "$(adopted)" ]; then kind=adopted; fi
    [ -n "$kind" ] || { down="not klops', left alone"; return 0; }
    case $state in
    created|exited)
        # stopped by hand it has no error; told to stay down it has no policy
        case $policy,$error,$state in
        no,*) down="its restart policy is no, left alone" ;;
        *,failed,*) if nodes_exist; then task=start; else down="device nodes of it are missing"; fi ;;
        *,exited) down="stopped by hand, left alone" ;;
        *) down="never started, left alone" ;;
        esac ;;
    running)
        if [ "$kind" = adopted ]; then
            ask_agent
            [ $? != 1 ] || task=supervise
        fi ;;
    *) down="$state, left alone" ;;
    esac
}
# the lock for what comes, unless we have it; a run may have had it since we looked
hold_host() {
    [ -z "$ours" ] || return 0
    take || not_taken
    [ ! -e "$root/recreation.json" ] || stop skipped "the container is just being made anew"
    look
}
start() {
    if bounded "$starting" start "$id"; then
        started=true
        note container-started "\"why\": \"a start had failed, and its device nodes are there\""
        echo "klops: container $name was started: all its device nodes are there now"
    else
        give_up container-not-started "container $name does not start: $(said)"
    fi
}
# what services have left is looked for also where that fails
supervise() {
    begin || {
        complain supervisor-not-started "no supervisor can be started in container $name: $(said)"
        return
    }
    uptime; due=$((up + answer))
    until ask_agent; do
        [ -z "$silent" ] || return
        uptime
        [ "$up" -lt "$due" ] || {
            complain supervisor-not-started "the supervisor started in container $name does not answer"
            return
        }
        nap
    done
    supervised=true
    note supervisor-started "\"why\": \"none was running in the adopted container\""
    echo "klops: the supervisor of container $name was started"
}
"""

#: The reap: by the helper, which sees the whole host, and by the agent in the container, which sees its
#: shared memory; by that one alone where docker can run no helper.
CLEANING_UP = r"""
count() { tr '{' '\n' <"$out" | grep -c "$@"; }
# whether the agent answered with status $1; else $fault says why not, and $code what kind of failure that is
answered() {
    code=$(sed -n 's/.*"error": *{"code": *"\([a-z-]*\)".*/\1/p' "$out")
    case $1,$code in
    124,*) code=hangs fault="the reap gave $(said)" ;;
    *,reap-busy) fault="another clean-up is at work" ;;
    *,host-locked)
        fault="$(holder) has the lock"
        ! our_lock || fault="the agent does not see the lock that this pass has" ;;
    *,?*) fault="the reap failed: $(clean <"$out")" ;;
    0,)
        ! grep -q '"processes":' "$out" || return 0
        fault="the agent tells nothing of processes" ;;
    *) fault="what is left of services can't be looked for: $(said)" ;;
    esac
    return 1
}
# leave the pass for who is at work already, and for what would hang or fail in another way, too
leave_to_others() {
    case $code in
    reap-busy) stop skipped "$fault" ;;
    host-locked)
        ! our_lock || give_up reap-failed "$fault"
        stop skipped "$fault" ;;
    hangs) give_up reap-failed "$fault" ;;
    esac
}
# hear what was said: whether more is due, and what a reap has done
hear() {
    ! grep -q -e '"action": *"term"' -e '"action": *"kill"' -e 'would be removed' -e '"back": *\[{' "$out" ||
        due=${due:-$view}
    met=$(sed -n 's/.*"trouble": *\[\("[^]]*\)\].*/\1/p' "$out" | clean)
    [ -z "$met" ] || complain reap-trouble "the reap met trouble: $met"
    # what is spared is seen by both, in a look and in a reap
    [ -n "$1" ] || young=$(count ' s old: it may belong to something.*"action": *"none"')
    [ "$how" = reap ] || return 0
    ended=$((ended + $(count '"outcome": *"gone"')))
    removed=$((removed + $(count '"action": *"removed"')))
    # what can't be ended is seen by both
    [ -n "$1" ] || left=$(count -e '"outcome": *"alive"' -e '"outcome": *"unkillable"')
}
# a helper that doesn't come back hangs with what it looks at, and another one would, too
no_helper_hangs() {
    helpers || give_up docker-silent "docker does not tell about helpers: $(said)"
    [ ! -s "$out" ] ||
        give_up helper-hangs "a helper of an earlier pass is still at work: container $(clean <"$out")"
}
# reap HOW WORDS...: one reap of the agent; HOW: look or reap. Leaves the pass when nobody answers
reap() {
    how=$1 heard=
    shift
    sharing
    # docker would make the folder of the nodes
    [ -d "$device_dir" ] || no_helper="$device_dir is no folder on the host"
    if [ -z "$no_helper" ]; then
        view=host
        "${how}_by_helper" "$@" $shared
        if answered $?; then
            hear ""
            heard=yes
        else
            leave_to_others
            no_helper=$fault
        fi
    fi
    if [ -n "$silent" ]; then
        [ -n "$heard" ] || stop failed "$(troubles); no helper: $no_helper"
        return 0
    fi
    [ -n "$heard" ] || view=container
    "${how}_inside" "$@" $shared
    answered $?
    failed=$?
    # one that has a root of its own doesn't see the host's lock; one that does is refused once more
    if [ "$failed,$how,$code" = 1,reap,host-locked ] && our_lock; then
        reap_inside $shared
        answered $?
        failed=$?
    fi
    [ "$failed" = 1 ] || { hear "$heard"; return; }
    [ -n "$heard" ] || leave_to_others
    [ -n "$heard" ] || give_up reap-failed "$fault"
    silent=yes
    complain reap-failed "leftovers in shared memory can't be looked for: $fault"
}
sweep() {
    [ "$state" = running ] && [ -n "$kind" ] || return 0
    no_helper_hangs
    due=
    reap look --check
    [ -n "$due" ] || return 0
    hold_host
    [ "$state" = running ] && [ -n "$kind" ] || return 0
    reap reap --run "$run"
    # what only the host's view shows is not done where only the container was reaped
    [ -z "$no_helper" ] || [ "$due,$ended,$removed,$left" != host,0,0,0 ] || complain reap-failed "$no_helper"
}
"""

#: One pass from its beginning to its end.
MAIN = r"""
left() {
    end_child "the pass ends"
    [ -z "$trouble" ] || { printf '%s' "$trouble" >"$last"; } 2>/dev/null
    [ -z "$ours" ] || ! our_lock || ! ours_alone || rm -f -- "$lock"
    leave
    record
    rm -f -- "$out" "$err" "$lock.$run" "$metrics.$$"
    [ -z "$mine" ] || rm -f -- "$alone"
}

case $#,${1-} in
0,) ;;
1,--log) log_there ;;
*)
    echo "usage: sh $root/pass [--log]: one pass; with --log it writes to log/pass.log" >&2
    exit 2 ;;
esac
uptime; began=$up
trap left EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
run=$run_of_pass$$-$(birth $$) removed=0 young=0 silent= no_helper=
read -r boot </proc/sys/kernel/random/boot_id || stop failed "the boot id can't be read"
# what passes have left that were killed
for file in "$root"/.pass.* "$metrics".*; do
    of=${file##*/.pass.} of=${of%.out} of=${of%.err} of=${of##*.}
    [ ! -e "$file" ] || [ -e "/proc/$of" ] || rm -f -- "$file"
done
for file in "$lock.$run_of_pass"*; do
    of=${file#"$lock.$run_of_pass"}
    [ ! -e "$file" ] || [ "$(birth "${of%-*}")" = "${of#*-}" ] || rm -f -- "$file"
done
# an empty file has room on a full disk, too
( umask 077; echo >"$out" && echo >"$err" ) 2>/dev/null ||
    stop failed "nothing can be written in $root: is the disk full?"
only_one || not_alone
[ ! -e "$root/recreation.json" ] || stop skipped "the container is just being made anew"
[ ! -e "$lock" ] || dead || not_taken
look
if [ -n "$task" ]; then
    hold_host
    if [ "$task" = start ]; then start; look; fi
    if [ "$task" = supervise ]; then supervise; fi
fi
sweep
[ "$left" = 0 ] || complain orphans-left "orphans that can't be ended: $left"
did=
[ "$started" = false ] || did="$did, container started"
[ "$supervised" = false ] || did="$did, supervisor started"
[ "$ended" = 0 ] || did="$did, orphans ended: $ended"
[ "$removed" = 0 ] || did="$did, leftovers removed: $removed"
only=
[ "$young" = 0 ] || only="; $young too young to be ended"
[ -z "$down" ] || only="$only; container $name: $down"
[ -z "$no_helper" ] || only="$only; only the container was looked at: $no_helper"
[ -z "$trouble" ] || stop failed "$(troubles)${did:+; ${did#, }}$only"
rm -f -- "$last"
[ -n "$did" ] || stop ok "nothing to do$only"
stop did "${did#, }$only"
"""
