"""The helper: a container of the same image that sees all processes of a host, for as long as one verb takes.

It looks through the host's pid namespace with the three capabilities that this needs; one that cleans up, and
so writes below klops' root, has a fourth. It has no network, and leaves nothing behind. What it runs is the
agent that lies on the host.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from klops.commands.agent import PYTHON_FLAGS, agent_path

#: Where the helper has the card nodes of the host: only their numbers are read, they are never opened.
DEVICES = "/klops-devices"
#: Says that a container is a helper.
LABEL = "io.klops.helper"
#: Read processes of others, list what they have open, signal them (measured: fewer don't do).
CAPS = ("SYS_PTRACE", "DAC_READ_SEARCH", "KILL")
#: One that writes below klops' root: that is a folder of the user whom klops works as, who need not be root.
WRITING_CAPS = ("DAC_OVERRIDE",)
#: An AppArmor or SELinux profile of containers would hide the host's processes again.
SECURITY = ("apparmor=unconfined", "label=disable")
#: Exit statuses of docker run for a container that it could not make, or whose program it could not start.
NOT_RUN = (125, 126, 127)

#: Stands before and after the name of a shell's variable in a word; no command line holds it otherwise.
_MARK = "\x01"


def variable(name: str) -> str:
    """A word, or a part of one, for :func:`shell`: the value that a variable has there (``@``: all words)."""
    return f"{_MARK}{name}{_MARK}"


def shell(words: Sequence[str]) -> str:
    """A command line for a POSIX shell, with what :func:`variable` stands for in it.

    >>> print(shell(["docker", "run", variable("image"), "a b"]))
    docker run "${image}" 'a b'
    """
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if _MARK not in word:
        return shlex.quote(word)
    parts = word.split(_MARK)
    return "".join(
        f'"${{{part}}}"' if at % 2 else shlex.quote(part) for at, part in enumerate(parts) if at % 2 or part
    )


def helper(
    docker: Sequence[str],
    image: str,
    python: str,
    root: str,
    device_dir: str,
    *args: str,
    like: str = "",
    volumes: Sequence[str] = (),
    more: Sequence[str] = (),
    writable: bool = False,
) -> list[str]:
    """``docker run --rm`` of one verb of the agent, with the host's view.

    ``image`` is an id: a tag may have moved on. ``like`` is a container whose volumes it gets, read-only (the
    interpreter may lie in one of them); ``volumes`` are those it gets where there is none; ``more``
    are further options of docker run. ``writable``: it may write below ``root``. Without that it can't change
    a file of the host.
    """
    words = [*docker, "run", "--rm", "--pull", "never", "--label", f"{LABEL}=1"]
    words += ["--pid", "host", "--cgroupns", "host", "--network", "none", "--log-driver", "none"]
    words += ["--user", "0:0", "--cap-drop", "ALL"]
    for cap in (*CAPS, *(WRITING_CAPS if writable else ())):
        words += ["--cap-add", cap]
    for option in SECURITY:
        words += ["--security-opt", option]
    if like:
        words += ["--volumes-from", f"{like}:ro"]
    for volume in volumes:
        words += ["--volume", volume]
    words += more
    words += ["--volume", f"{root}:{root}" + ("" if writable else ":ro")]
    words += ["--volume", f"{device_dir}:{DEVICES}:ro"]
    words += ["--entrypoint", python, image, *PYTHON_FLAGS, agent_path(root)]
    return [*words, *args, "--root", root, "--device-dir", DEVICES]
