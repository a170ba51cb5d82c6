"""Command lines that run the agent in a container. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from klops.agent.digests import canonical, packages_digest, secret_digest, spec_digest

__all__ = [
    "PYTHON_FLAGS",
    "agent_path",
    "canonical",
    "hold",
    "package_path",
    "packages_digest",
    "secret_digest",
    "spec_digest",
    "verb",
]

#: Isolated, and without ``site``: no variable or file of the image can shadow a module of the agent, and the
#: start doesn't pay for the image's thousands of packages.
_ISOLATED = ("-I", "-S")
#: For all that is run beside the main process: nothing is compiled into the image's folders either, so that
#: what only reads leaves nothing behind.
PYTHON_FLAGS = (*_ISOLATED, "-B")


def agent_path(root: str) -> str:
    """Where the agent in use lies: a symbolic link to ``<digest>.pyz`` beside it."""
    return f"{root}/agent/current"


def package_path(root: str, digest: str) -> str:
    """Where the agent of one digest lies."""
    return f"{root}/agent/{digest}.pyz"


def hold(python: str, root: str, *, beside: bool = False) -> list[str]:
    """The launcher: the main command of a container that klops makes, or ``beside`` that of another's."""
    if beside:
        return [python, *PYTHON_FLAGS, agent_path(root), "hold", "--beside", "--root", root]
    return [python, *_ISOLATED, agent_path(root), "hold", "--root", root]


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
