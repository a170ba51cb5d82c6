"""Which commands are known to read only. An allow-list: what isn't on it can't be part of a probe."""

from __future__ import annotations

from collections.abc import Sequence

#: Programs that change nothing whatever their arguments.
_PURE = frozenset({"cat", "df", "id", "ls", "test", "true", "uname"})
#: Sub-commands of docker that change nothing.
_DOCKER = frozenset({"images", "info", "inspect", "ps", "version"})
_DOCKER_TWO = frozenset(
    {("container", "inspect"), ("container", "ls"), ("image", "inspect"), ("image", "ls")}
)
#: Programs that may look around inside a container.
_INSIDE = frozenset({"cat", "ls", "test", "xpu-smi", "xpu_smi"})
#: Whole command lines of xpu-smi: ``-r`` resets a card, ``-V`` makes virtual functions, ``-f`` writes a file.
_SMI = frozenset({("-L",), ("-m",), ("-q",), ("topo", "-m")})
#: The same of ss (``-K`` closes sockets, ``-D`` writes a file).
_SS = frozenset({("-H", "-ltnp")})
#: The same of dmesg: ``-c`` and ``-C`` clear the kernel log, ``-n``, ``-D`` and ``-E`` change what is logged.
_DMESG = frozenset({(), ("-T",)})
#: The start of those of lspci, before the vendor: ``-q`` asks name servers and keeps a file of the answers.
_LSPCI = ("-n", "-d")


def refusal(argv: Sequence[str]) -> str:
    """Why ``argv`` is not known to read only; "" when it is.

    >>> refusal(["docker", "inspect", "a"])
    ''
    >>> refusal(["docker", "rm", "a"])
    'docker rm may change something'
    """
    rest = list(argv)
    if rest[:2] == ["sudo", "-n"]:
        rest = rest[2:]
    if not rest:
        return "empty command"
    program, *args = rest
    name = program.rsplit("/", 1)[-1]
    if name in _PURE:
        return ""
    if name == "ss":
        return "" if tuple(args) in _SS else "only ss -H -ltnp is known to read only"
    if name == "dmesg":
        return "" if tuple(args) in _DMESG else "only dmesg and dmesg -T are known to read only"
    if name == "lspci":
        known = len(args) == len(_LSPCI) + 1 and tuple(args[:-1]) == _LSPCI
        return "" if known else "only lspci -n -d VENDOR: is known to read only"
    if name == "docker":
        while args and args[0] in ("-H", "--host", "--context"):
            args = args[2:]
        if args and (args[0] in _DOCKER or tuple(args[:2]) in _DOCKER_TWO):
            return ""
        if args[:1] == ["exec"]:
            return _inside(args[1:])
        return f"docker {args[0] if args else ''} may change something"
    if name in ("xpu-smi", "xpu_smi"):
        if tuple(args) in _SMI:
            return ""
        return "only -L, -m, -q and topo -m of xpu-smi, each alone, are known to read only"
    return f"{name} is not on the list of commands that only read"


def _inside(args: list[str]) -> str:
    """The same for ``docker exec``: a name, no option before it, and a command that only looks."""
    if len(args) < 2 or args[0].startswith("-"):
        return "docker exec with options may change something"
    if args[1].rsplit("/", 1)[-1] not in _INSIDE:
        return f"docker exec of {args[1]} may change something"
    return refusal(args[1:])
