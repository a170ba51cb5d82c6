"""Command lines that run the agent in a container. No I/O."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from klops.agent.digests import canonical, secret_digest, spec_digest

__all__ = [
    "BOOT",
    "PYTHON_FLAGS",
    "agent_path",
    "canonical",
    "hold",
    "package_line",
    "package_path",
    "secret_digest",
    "spec_digest",
    "verb",
    "verb_from_stdin",
]

#: Isolated, and without ``site``: no variable or file of the image can shadow a module of the agent, and the
#: start doesn't pay for the image's thousands of packages.
PYTHON_FLAGS = ("-I", "-S")

#: Runs the package that comes as one line of base64 on standard input, from memory: nothing is left behind.
#: Builds of Python against an old C library lack ``os.memfd_create``, so the system call is the second way.
BOOT = """\
import base64, os, runpy, sys
data = base64.b64decode(sys.stdin.readline())
if hasattr(os, "memfd_create"):
    fd = os.memfd_create("klops-agent")
else:
    import ctypes
    fd = ctypes.CDLL(None).syscall({"x86_64": 319, "aarch64": 279}[os.uname().machine], b"klops-agent", 1)
with open(fd, "wb", closefd=False) as file:
    file.write(data)
path = "/proc/self/fd/%d" % fd
sys.argv[0] = path
runpy.run_path(path, run_name="__main__")
"""


def agent_path(root: str) -> str:
    """Where the agent in use lies: a symbolic link to ``<digest>.pyz`` beside it."""
    return f"{root}/agent/current"


def package_path(root: str, digest: str) -> str:
    """Where the agent of one digest lies."""
    return f"{root}/agent/{digest}.pyz"


def hold(python: str, root: str) -> list[str]:
    """The main command of a container that klops makes."""
    return [python, agent_path(root), "hold", "--root", root]


def verb(
    docker_prefix: Sequence[str],
    container: str,
    python: str,
    root: str,
    verb: str,
    *args: str,
    stdin: bool = False,
) -> list[str]:
    """``docker exec`` of one verb of the installed agent; ``stdin`` keeps standard input open for it."""
    keep = ["-i"] if stdin else []
    return [
        *docker_prefix,
        "exec",
        *keep,
        container,
        python,
        *PYTHON_FLAGS,
        agent_path(root),
        verb,
        *args,
        "--root",
        root,
    ]


def verb_from_stdin(
    docker_prefix: Sequence[str], container: str, python: str, root: str, verb: str, *args: str
) -> list[str]:
    """``docker exec`` of one verb of an agent that comes on standard input, see :func:`package_line`."""
    return [
        *docker_prefix,
        "exec",
        "-i",
        container,
        python,
        *PYTHON_FLAGS,
        "-c",
        BOOT,
        verb,
        *args,
        "--root",
        root,
    ]


def package_line(data: bytes) -> str:
    """The package as the one line (without its line end) that :data:`BOOT` reads."""
    return base64.b64encode(data).decode("ascii")
