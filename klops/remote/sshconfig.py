"""Where a host is and how to get in: the inventory's settings over ssh arguments over ``~/.ssh/config``."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from klops.errors import UsageError
from klops.remote import whoami
from klops.remote.hostkeys import host_name
from klops.userfolders import expanded

if TYPE_CHECKING:
    from paramiko import SSHConfig

    from klops.inventory.connection import Connection

USER_CONFIG = "~/.ssh/config"
SYSTEM_CONFIG = "/etc/ssh/ssh_config"
USER_KNOWN_HOSTS = "~/.ssh/known_hosts ~/.ssh/known_hosts2"
GLOBAL_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"
#: Files included by files included by ...: as deep as OpenSSH goes.
INCLUDE_DEPTH = 16
#: Jump hosts behind jump hosts.
JUMP_DEPTH = 8

#: one-letter options of ssh that stand for a configuration key
_LETTERS = {"p": "port", "l": "user", "i": "identityfile", "J": "proxyjump"}
#: one-letter options that change nothing klops does
_IGNORED = frozenset("46AaCfGgKkMNnqsTtVvXxYy")
#: options with a value that change nothing klops does
_IGNORED_WITH_VALUE = frozenset("BbcDEeILmOQRSWw")


@dataclass(frozen=True)
class Target:
    """One hop: where it is, who logs in with what, and which files say whether it can be trusted."""

    name: str
    address: str
    port: int
    user: str
    #: key files, the explicit one first
    keys: tuple[str, ...] = ()
    #: the key file of the inventory, which must be there
    required_key: str = ""
    use_agent: bool = True
    #: look for ``~/.ssh/id_*`` too
    default_keys: bool = True
    connect_timeout: float = 10.0
    known_hosts_name: str = ""
    user_known_hosts: tuple[str, ...] = ()
    global_known_hosts: tuple[str, ...] = ()
    #: whether somebody asked for unchecked host keys, which klops doesn't do
    unchecked_wanted: bool = False
    jump: Target | None = None

    @property
    def known_hosts(self) -> tuple[str, ...]:
        """All files that may name the host."""
        return self.user_known_hosts + self.global_known_hosts

    @property
    def place(self) -> str:
        """``address`` or ``address:port``, for messages."""
        return self.address if self.port == 22 else f"{self.address} port {self.port}"


def parse_args(args: Sequence[str]) -> dict[str, list[str]]:
    """ssh's own command line options as configuration: lower-case key -> values in order.

    >>> parse_args(["-o", "Port=2", "-oUser=ada", "-J", "gate"])
    {'port': ['2'], 'user': ['ada'], 'proxyjump': ['gate']}
    """
    found: dict[str, list[str]] = {}
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if len(word) < 2 or not word.startswith("-"):
            raise UsageError(f"ssh arguments: {word!r} is not an option")
        letter, value = word[1], word[2:]
        if letter in _IGNORED:
            if value:
                rest.insert(0, "-" + value)
            continue
        if not value:
            if not rest:
                raise UsageError(f"ssh arguments: -{letter} needs a value")
            value = rest.pop(0)
        if letter == "o":
            key, _, setting = value.replace("=", " ", 1).strip().partition(" ")
            found.setdefault(key.lower(), []).append(setting.strip())
        elif letter == "F":
            found.setdefault("-f", []).append(value)
        elif letter in _LETTERS:
            found.setdefault(_LETTERS[letter], []).append(value)
        elif letter not in _IGNORED_WITH_VALUE:
            raise UsageError(f"ssh arguments: -{letter} is not known")
    return found


def expand_includes(text: str, folder: Path, depth: int = 0) -> str:
    """A configuration with ``Include`` lines replaced by the files they name (relative to ``folder``)."""
    lines = []
    for line in text.splitlines():
        words = line.strip().replace("=", " ", 1).split(None, 1)
        if len(words) == 2 and words[0].lower() == "include" and depth < INCLUDE_DEPTH:
            for pattern in shlex.split(words[1]):
                full = expanded(pattern)
                # an absolute pattern wins over the folder it is joined to
                whole = folder / full
                for file in sorted(Path(whole.anchor).glob(str(whole.relative_to(whole.anchor)))):
                    inner = file.read_text(encoding="utf-8", errors="replace")
                    lines.append(expand_includes(inner, folder, depth + 1))
        else:
            lines.append(line)
    return "\n".join(lines)


def load_config(file: str | None = None) -> SSHConfig:
    """The user's configuration and then the system's (the first value of a key wins), or only ``file``."""
    places = [(USER_CONFIG, "~/.ssh"), (SYSTEM_CONFIG, "/etc/ssh")]
    if file is not None:
        places = [] if file.lower() == "none" else [(file, "~/.ssh")]
    texts = []
    for name, folder in places:
        path = expanded(name)
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            texts.append(expand_includes(text, expanded(folder)))
    # a file's last Host or Match block must not swallow the head of the next file
    return _parsed("\nHost *\n".join(texts))


@functools.lru_cache(maxsize=8)
def _parsed(text: str) -> SSHConfig:
    """The same for all hosts of a run, which only look things up in it."""
    from paramiko import SSHConfig, SSHException

    try:
        return SSHConfig.from_text(text)
    except (SSHException, ValueError) as e:
        raise UsageError(f"ssh configuration: {e}", hint=f"see {USER_CONFIG} and {SYSTEM_CONFIG}") from e


def resolve(connection: Connection, config: SSHConfig | None = None) -> Target:
    """The hops to a host. Raises :class:`UsageError` for what klops can't do (a ProxyCommand)."""
    if not whoami.login_name():
        # paramiko wants it for every look into the configuration, whatever that and the inventory say
        raise UsageError(
            f"{connection.name}: this machine has no user name for {whoami.user()}",
            hint="set the environment variable LOGNAME",
        )
    args = parse_args(connection.common_args)
    if config is None:
        config = load_config(*args.get("-f", [])[:1])
    return _target(
        connection.name,
        connection.address,
        config,
        args=args,
        port=connection.port,
        user=connection.user,
        key=connection.private_key_file,
        timeout=connection.connect_timeout,
    )


def _target(
    name: str,
    alias: str,
    config: SSHConfig,
    *,
    args: dict[str, list[str]],
    port: int | None,
    user: str | None,
    key: str | None,
    timeout: float,
    depth: int = 0,
) -> Target:
    if depth > JUMP_DEPTH:
        raise UsageError(f"{name}: more than {JUMP_DEPTH} jump hosts; is there a circle in ProxyJump?")
    found = config.lookup(alias)

    def get(option: str, default: str = "") -> str:
        value = args[option][0] if option in args else found.get(option, default)
        return value if isinstance(value, str) else default

    address = get("hostname", alias).replace("%h", alias)
    number = get("port", "22")
    if port is None:
        if not number.isdecimal():
            raise UsageError(f"{name}: {number!r} is not a port")
        port = int(number)
    required = str(expanded(key)) if key else ""
    listed = [*args.get("identityfile", []), *found.get("identityfile", [])]
    keys = [required] if required else []
    for file in listed:
        path = expanded(file)
        # as ssh does: a configured key that isn't there is no mistake
        if path.is_file() and str(path) not in keys:
            keys.append(str(path))
    only = get("identitiesonly").lower() == "yes" and bool(keys)
    alias_key = get("hostkeyalias")
    return Target(
        name=name,
        address=address,
        port=port,
        user=user or get("user") or whoami.login_name(),
        keys=tuple(keys),
        required_key=required,
        use_agent=not only,
        default_keys=not only,
        connect_timeout=timeout,
        known_hosts_name=alias_key.lower() or host_name(address, port),
        user_known_hosts=_files(get("userknownhostsfile", USER_KNOWN_HOSTS)),
        global_known_hosts=_files(get("globalknownhostsfile", GLOBAL_KNOWN_HOSTS)),
        unchecked_wanted=get("stricthostkeychecking").lower() in ("no", "off", "accept-new"),
        jump=_jump(name, get("proxyjump"), get("proxycommand"), config, args, timeout, depth),
    )


def _files(text: str) -> tuple[str, ...]:
    return tuple(str(expanded(f)) for f in shlex.split(text) if f.lower() not in ("none", "/dev/null"))


def _jump(
    name: str,
    jump: str,
    command: str,
    config: SSHConfig,
    args: dict[str, list[str]],
    timeout: float,
    depth: int,
) -> Target | None:
    if not jump or jump.lower() == "none":
        jump = "" if not command or command.lower() == "none" else _jump_of_command(name, command)
    if not jump:
        return None
    *before, last = [hop.strip() for hop in jump.split(",")]
    user, port, host = _split_hop(last)
    # what the arguments say of the host itself is not said of the hops before it, but for keys of both kinds
    shared = {
        k: v for k, v in args.items() if k in ("userknownhostsfile", "globalknownhostsfile", "identityfile")
    }
    if before:
        shared["proxyjump"] = [",".join(before)]
    return _target(
        f"{name}: jump host {host}",
        host,
        config,
        args=shared,
        port=port,
        user=user,
        key=None,
        timeout=timeout,
        depth=depth + 1,
    )


def _split_hop(hop: str) -> tuple[str | None, int | None, str]:
    """``[ssh://][user@]host[:port]``; an IPv6 address with a port stands in brackets."""
    user, at, rest = hop.removeprefix("ssh://").rpartition("@")
    host, port = rest, ""
    if rest.startswith("["):
        host, _, port = rest[1:].partition("]")
        port = port.removeprefix(":")
    elif rest.count(":") == 1:
        host, _, port = rest.partition(":")
    if not host or (port and not port.isdecimal()):
        raise UsageError(f"ProxyJump: {hop!r} is not [user@]host[:port]")
    return (user if at else None), (int(port) if port else None), host


def _jump_of_command(name: str, command: str) -> str:
    """The jump host of ``ssh -W %h:%p [user@]host``, the old spelling of ProxyJump that is still common."""
    refusal = UsageError(
        f"{name}: ProxyCommand {command!r} is not supported: klops runs no local program to connect",
        hint="use ProxyJump: ansible_ssh_common_args: -J user@jump",
    )
    words = shlex.split(command)
    if not words or words[0].rsplit("/", 1)[-1] != "ssh":
        raise refusal
    user = port = host = ""
    forwards = False
    rest = words[1:]
    while rest:
        word = rest.pop(0)
        if word in ("-q", "-A", "-a", "-T", "-x", "-n"):
            continue
        if word in ("-W", "-p", "-l", "-o", "-i") and rest:
            value = rest.pop(0)
            forwards = forwards or (word == "-W" and value in ("%h:%p", "[%h]:%p"))
            port = value if word == "-p" else port
            user = value if word == "-l" else user
        elif not word.startswith("-") and not host:
            host = word
        else:
            raise refusal
    if not host or not forwards:
        raise refusal
    return (f"{user}@" if user else "") + host + (f":{port}" if port else "")
