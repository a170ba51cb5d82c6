"""Pieces of shell by which both a run of klops and the scheduled pass have the agent reap. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from klops.commands.agent import verb
from klops.commands.containerspec import MANAGED_LABEL
from klops.commands.helper import helper, shell, variable

#: For ``docker inspect``: ``made`` for a container that klops made, ``other`` else.
KIND = (
    f'{{{{if and (eq (index .Config.Labels "{MANAGED_LABEL}") "1")'
    f' (eq (index .HostConfig.LogConfig.Config "labels") "{MANAGED_LABEL}")}}}}'
    "made{{else}}other{{end}}"
)
#: The same of who else sees its shared memory, in one word: the mode of its IPC namespace, then ``,shm`` and
#: ``,tmp`` for what is mounted over /dev/shm and /tmp or above, but for a tmpfs of its own. Of that an engine
#: too old to tell what kind a mount is doesn't list any.
IPC = (
    '{{or .HostConfig.IpcMode "private"}}{{range .Mounts}}{{if ne (or .Type "bind") "tmpfs"}}'
    '{{if eq .Destination "/dev/shm" "/dev"}},shm{{end}}{{if eq .Destination "/tmp"}},tmp{{end}}'
    "{{end}}{{end}}"
)
#: ``sharing`` sets ``$shared`` to the options by which the agent learns of that; it is in ``$ipc``.
SHARING = """\
sharing() {
shared=
case $ipc in host|host,*|container:*|*,shm*) shared=--shared-ipc ;; esac
case $ipc in *,tmp*) shared="$shared --shared-tmp" ;; esac
}"""


def recorded(path: str) -> str:
    """Prints the id in the record of an adopted container at ``path``: JSON, a key a line."""
    return rf"""sed -n 's/^ *"id": *"\([0-9a-f]*\)".*/\1/p' {shlex.quote(path)} 2>/dev/null"""


def inside(docker: Sequence[str], python: str, root: str, args: Sequence[str]) -> str:
    """The reap of the agent in container ``$id`` of kind ``$kind``; the shell's words are further options."""
    words = (*args, "--kind", variable("kind"), variable("@"))
    return shell(verb(docker, variable("id"), python, root, "reap", *words))


def beside(
    docker: Sequence[str],
    python: str,
    root: str,
    device_dir: str,
    args: Sequence[str],
    *,
    writable: bool,
    more: Sequence[str] = (),
) -> str:
    """That of a helper, made like container ``$id`` of image ``$image``. ``more``: options of docker run."""
    about = ("--host", "--container", variable("id"), "--kind", variable("kind"))
    words = ("reap", *args, *about, variable("@"))
    like = variable("id")
    image = variable("image")
    return shell(
        helper(docker, image, python, root, device_dir, *words, like=like, writable=writable, more=more)
    )
