"""The pass: a POSIX shell script that brings back what docker leaves down on a host, and cleans up. No I/O.

docker doesn't try again when a card's node was missing as it started a container, and nothing starts the
supervisor of an adopted container again after a restart; nor does anybody end what a service left on the
cards when its supervisor was killed with it. ``sh ROOT/pass`` does all of that, whoever runs it: klops puts
it there, and the host's cron calls it (``klops cron install``), as the user that klops works as there. It
needs docker and a shell, and Python only in the image.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from klops.commands import reapcalls
from klops.commands.agent import hold, verb
from klops.commands.hostpass import basics, lock, work

#: Seconds for a question to the engine or the agent, for the start of a container, for a look of the helper,
#: and for a reap, which waits for what it ends.
ASK, START, LOOK, REAP = 15, 60, 60, 180
#: Seconds until a supervisor that was started must answer.
WAIT = 20
#: Seconds a docker that doesn't answer gets to end by itself before it is killed.
GRACE = 2
#: Seconds between two looks whether docker is done; where sleep takes no fractions, they are 1.
PAUSE = "0.1"
#: How the name of a pass begins, where a run has its own in the lock.
RUN = "pass-"
#: Says of which root's pass a helper container is.
LABEL = "io.klops.pass"
#: Seconds that a guard of the lock counts, as the runs of klops have it.
GUARDED = 60
#: Seconds of its lifetime a lock must have left to be renewed or given back without that guard; and seconds
#: after which it is renewed.
NEAR = 20
#: Bytes after which a log makes room: it becomes LOG.1, in place of the one before.
LONGEST = 1 << 20
#: Seconds the lock is taken for.
LIFETIME = 60

#: What is read of a container, in one line; its name follows, and the nodes of its devices on the host.
_FORMAT = (
    '{{.Id}} {{.State.Status}} {{or .HostConfig.RestartPolicy.Name "no"}}'
    " {{if .State.Error}}failed{{else}}clean{{end}}"
    f" {reapcalls.KIND} {{{{.Image}}}} {reapcalls.IPC}"
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
# an adopted container; ends orphans of services. Leaves alone what was stopped by hand, and all while a run
# of klops has the lock. With --log it writes to log/pass.log; how it ended is in pass.jsonl, too.
"""


def script(
    docker: Sequence[str],
    container: str,
    python: str,
    root: str,
    *,
    device_dir: str = "/dev",
    young: float = 60.0,
) -> str:
    """The script for one host. ``docker`` is how docker is called, ``python`` the one in the container.

    ``device_dir`` is where the card nodes are; a process younger than ``young`` seconds is left alone.
    """
    # what the builders give after the container: it is named by its id, once that is known
    status = shlex.join(verb((), container, python, root, "status")[2:])
    supervisor = shlex.join(hold(python, root, beside=True))
    log = shlex.quote(f"{root}/log/launcher.log")
    values = {
        "root": root,
        "name": container,
        "json_name": json.dumps(container),
        "prom_root": root.replace("\\", r"\\").replace('"', r"\""),
        "device_dir": device_dir,
        "format": _FORMAT,
        "ask": str(ASK),
        "starting": str(START),
        "looking": str(LOOK),
        "reaping": str(REAP),
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
    grace = ("--grace", f"{young:g}")
    label = f"{LABEL}={root}"

    def by_helper(*, acts: bool) -> str:
        mark = ("--label", label)
        return reapcalls.beside((), python, root, device_dir, grace, writable=acts, more=mark)

    inside = reapcalls.inside((), python, root, grace)
    lines = [
        *(f"{name}={shlex.quote(value)}" for name, value in values.items()),
        f'engine() {{ exec {shlex.join(docker)} "$@"; }}',
        f"ask_agent() {{ supervised {status}; }}",
        f'begin() {{ bounded "$ask" {begin}; }}',
        f'helpers() {{ bounded "$ask" ps --quiet --filter {shlex.quote(f"label={label}")}; }}',
        f'look_by_helper() {{ bounded "$looking" {by_helper(acts=False)}; }}',
        f'look_inside() {{ bounded "$looking" {inside}; }}',
        f'reap_by_helper() {{ bounded "$reaping" {by_helper(acts=True)}; }}',
        f'reap_inside() {{ bounded "$reaping" {inside}; }}',
        f"adopted() {{ {reapcalls.recorded(f'{root}/adopted.json')}; }}",
        reapcalls.SHARING,
    ]
    parts = (
        *(basics.PROCESSES, basics.TELLING, lock.LOCK),
        *(work.BRINGING_BACK, work.CLEANING_UP, work.MAIN),
    )
    return _HEAD + "\n".join(lines) + "\n" + "".join(parts)
