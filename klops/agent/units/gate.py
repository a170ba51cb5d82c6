"""The gate: a process that becomes a unit's root, but only when it is told to.

It waits on its standard input for one line of JSON. The supervisor writes that line after it has put the
gate's identity on disk; a supervisor that dies before leaves a closed pipe, and the gate ends without
having started anything. So no server ever runs that isn't on record.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

from klops.agent.errors import VerbError
from klops.agent.units import environment, released

#: Exit status when the unit can't be started as it is configured (EX_CONFIG).
CONFIG = 78


def instructions(told: dict[str, Any]) -> bytes:
    """The line that opens the gate."""
    return json.dumps(told).encode("ascii") + b"\n"


def main() -> int:
    """Wait, then become the program. Returns only when that is not to be."""
    os.setsid()
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        return 0  # the supervisor is gone
    told: dict[str, Any] = json.loads(line)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.umask(told["umask"])
    stamp = time.strftime("%Y-%m-%d %H:%M:%S%z")
    select: dict[str, str | None] = told["select"]
    say(f"==== klops {stamp} {told['header']}: {environment.describe(select)}")
    try:
        env = {**os.environ, **told["env"]}
        if told["env_script"]:
            env = environment.run_script(told["env_script"], env)
            for name, value in select.items():
                if env.get(name, value) != value:
                    say(
                        f"klops: env_script sets {name}={env[name]}; klops' choice wins: {value or 'removed'}"
                    )
        release = told["release"]
        if release is not None:
            # what a script sets of it comes after
            env = environment.with_release(env, released.VARIABLE, release["name"], release["folders"])
        env = environment.compose(env, select, told["secrets"])
        program = environment.find_program(told["argv"][0], env.get("PATH", os.defpath))
        # Python ignores these; a program is to find them as they are by default
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        os.execve(program, told["argv"], env)  # noqa: S606 - without a shell is what is wanted
    except VerbError as error:
        say(f"klops: ERROR: {error.message} ({error.hint})")
    except OSError as error:
        say(f"klops: ERROR: can't run {told['argv'][0]}: {error.strerror}")
    return CONFIG


def say(text: str) -> None:
    """One line into the unit's log."""
    os.write(1, (text + "\n").encode("utf-8", "surrogateescape"))
