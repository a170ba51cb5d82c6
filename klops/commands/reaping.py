"""One look for what was left behind on a host, or one clean-up: a POSIX shell script. No I/O.

The agent's ``reap`` looks best from a helper container, which sees the whole host. Where docker can't run
one it looks from inside the container, as far as that sees; what is left in shared memory is only seen from
inside in any case. Which container that is, whose it is and which
image a helper can be made of is asked on the spot: a record may be out of date by the time it is used.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from klops.commands import reapcalls
from klops.commands.agent import agent_path
from klops.commands.helper import NOT_RUN, helper, shell, variable

#: Exit status where klops' agent isn't on the host, and where there is no image to look with.
NO_AGENT, NO_IMAGE = 44, 46
#: What stands before the status of the look from inside the container, between two answers.
INSIDE = "inside"
#: What it says on its standard error, after docker's own words, where it looks from inside alone.
NO_HELPER = "no helper container could be run, so only the container was looked at"

#: What is read of the container in two lines; the second is its name: docker takes ids for names.
FORMAT = (
    f"{{{{.Id}}}} {{{{.Image}}}} {{{{.State.Running}}}} {reapcalls.KIND} {reapcalls.IPC}"
    '{{"\\n"}}{{.Name}}'
)

#: Has the answer of docker in ``said``, "" for what isn't there. Why docker doesn't tell it says when it is
#: asked once more: its standard error may hold warnings beside an answer.
_ASK = """\
ask() {
said=$("$@" 2>/dev/null) && [ -n "$said" ] && return
why=$("$@" 2>&1 >/dev/null)
case $(printf '%s' "$why" | tr '[:upper:]' '[:lower:]') in
*"no such container"*|*"no such object"*|*"no such image"*|*"with provided prefix"*) said= ;;
*) echo "docker does not answer: $(printf '%s' "$why" | tail -n 1)" >&2; exit 1 ;; esac
}"""


@dataclass(frozen=True)
class Place:
    """What of a host's settings a look needs. ``docker`` is how docker is called there."""

    docker: tuple[str, ...]
    container: str
    python: str
    root: str
    device_dir: str
    #: name of the image that a helper is made of where no container of klops' is there; "" for none
    image: str = ""
    #: its volumes then, as ``/HOST:/CONTAINER`` or with ``:ro``
    volumes: tuple[str, ...] = ()
    #: the record of an adopted container
    record: str = ""


def whole(place: Place, args: Sequence[str], *, inside: Sequence[str], writable: bool) -> str:
    """The script for all of the host.

    It prints ``VIEW ID KIND``, a ``-`` for what there isn't, and then what the verb says: of the host; then,
    where a container of klops' runs, ``INSIDE STATUS`` and what it says in there. Of the container alone
    where no helper could be run. ``args`` are the words after ``reap`` for a helper, ``inside`` those for the
    agent in the container. Its status is the verb's; ``NO_AGENT``, ``NO_IMAGE``; 1 where docker doesn't
    answer, as nobody knows then whether there is a container.
    """
    docker, root = place.docker, place.root
    image = shlex.join((*docker, "image", "inspect", "--format", "{{.Id}}", place.image))
    where = (place.python, root, place.device_dir)
    beside = reapcalls.beside(docker, *where, args, writable=writable)
    verb = ("reap", *args, "--host")
    own, mounts = variable("image"), (variable("@"),)
    alone = shell(helper(docker, own, *where, *verb, more=mounts, writable=writable))
    execute = _execute(place, inside)
    lines = [
        f"[ -e {shlex.quote(agent_path(root))} ] || exit {NO_AGENT}",
        # docker would make the folder
        f"dev={shlex.quote(place.device_dir)}",
        '[ -d "$dev" ] || { echo "$dev is not a folder on the host" >&2; exit 1; }',
        *_container(place),
        # of a container of somebody else's nothing is asked, and nothing used
        'if [ -n "$id" ] && [ "$kind" != other ]; then',
        f"out=$({beside}); rc=$?; view=helper",
        f"case $rc,$running,$kind in {_each((0,))})",
        f'also=$({execute}); out="$out\n{INSIDE} $?\n$also" ;;',
        f"{_each(NOT_RUN)})",
        f"echo {shlex.quote(NO_HELPER)} >&2",
        f"out=$({execute}); rc=$?; view=exec ;; esac",
        "else",
        *([f"ask {image}", "own=$said"] if place.image else ["own="]),
        f"[ -n \"$own\" ] || {{ echo 'there is no image to look with' >&2; exit {NO_IMAGE}; }}",
        "id= kind= image=$own view=helper; set --",
        *(_volume(volume, root) for volume in place.volumes),
        f"out=$({alone}); rc=$?",
        "fi",
        *_answer(),
    ]
    return "\n".join(lines)


def container(place: Place, inside: Sequence[str]) -> str:
    """The script for the container alone; what it prints begins with ``exec``."""
    lines = [
        *_container(place),
        '[ -n "$id" ] && [ "$running" = true ] && [ "$kind" != other ] ||',
        "{ echo 'no container of klops runs' >&2; exit 1; }",
        f"out=$({_execute(place, inside)}); rc=$? view=exec",
        *_answer(),
    ]
    return "\n".join(lines)


def _container(place: Place) -> list[str]:
    """Sets ``id`` ("" for no container), ``image``, ``running``, ``kind``, and options as the words."""
    inspect = (*place.docker, "inspect", "--type", "container", "--format", FORMAT, place.container)
    return [
        _ASK,
        reapcalls.SHARING,
        "id= image= running= kind= ipc= called=",
        f"ask {shlex.join(inspect)}",
        "{ read -r id image running kind ipc; read -r called; } <<EOF\n$said\nEOF",
        f'[ "$called" = {shlex.quote("/" + place.container)} ] || id=',
        f'[ "$kind" != other ] || [ "$id" != "$({reapcalls.recorded(place.record)})" ] || kind=adopted',
        "sharing; set -- $shared",
    ]


def _execute(place: Place, inside: Sequence[str]) -> str:
    """The agent's look from inside the container."""
    return reapcalls.inside(place.docker, place.python, place.root, inside)


def _answer() -> list[str]:
    not_run = "|".join(map(str, NOT_RUN))
    return [
        'printf "%s\\n" "$view ${id:--} ${kind:--}" "$out"',
        f"case $rc in {not_run}) exit 1 ;; esac",
        'exit "$rc"',
    ]


def _each(statuses: Sequence[int]) -> str:
    """The cases of these statuses of a helper, where a container of klops' runs."""
    return "|".join(f"{rc},true,{kind}" for rc in statuses for kind in ("made", "adopted"))


def _volume(volume: str, root: str) -> str:
    """One volume of the settings, to read only, if it is there: docker would make its folder."""
    host, _, rest = volume.partition(":")
    inside = rest.partition(":")[0]
    if inside == root:
        return ":"  # the helper has it, and docker refuses one place twice
    source = shlex.quote(host)
    return f'[ ! -e {source} ] || set -- "$@" --volume {shlex.quote(f"{host}:{inside}:ro")}'
