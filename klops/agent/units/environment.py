"""The environment of a unit, and the program it starts.

In this order, later wins: the supervisor's own environment, ``env``, ``env_script``, the selection of
cards, the release (whose folders come before those that PYTHONPATH has by then), secrets.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any, Mapping, Sequence

from klops.agent.errors import VerbError

#: The variables by which the runtimes at hand choose cards. Images set some of them to card 0.
VISIBLE = ("XPU_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "XPULINK_VISIBLE_DEVICES")
#: What a shell sets for itself.
_SHELL_OWN = ("_", "SHLVL", "PWD", "OLDPWD")
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def selection(visible_env: str, ranks: Sequence[int]) -> dict[str, str | None]:
    """Variables that choose the cards: one set, two removed (None). No cards: nothing is touched."""
    if not ranks:
        return {}
    chosen: dict[str, str | None] = dict.fromkeys(VISIBLE)
    chosen[visible_env] = ",".join(str(rank) for rank in ranks)
    return chosen


def after_script(before: Mapping[str, str], dump: Mapping[str, str]) -> dict[str, str]:
    """The environment after a script: what it set and unset, without what the shell does for itself."""
    merged = dict(before)
    for name in before:
        # a shell drops names that are no identifiers; that is not the script's doing
        if _IDENTIFIER.match(name) and name not in dump and name not in _SHELL_OWN:
            del merged[name]
    mine = {name for name in dump if name not in _SHELL_OWN and (_IDENTIFIER.match(name) or name in before)}
    merged.update((name, dump[name]) for name in mine)
    return merged


def compose(
    script_done: Mapping[str, str], select: Mapping[str, str | None], secrets: Mapping[str, str]
) -> dict[str, str]:
    """The last two layers: the selection of cards, then the secrets."""
    merged = dict(script_done)
    for name, value in select.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = value
    merged.update(secrets)
    return merged


def with_release(env: Mapping[str, str], variable: str, name: str, folders: Sequence[str]) -> dict[str, str]:
    """The environment in which Python imports from these folders first; ``variable`` tells the release."""
    rest = env.get("PYTHONPATH", "")
    path = ":".join([*folders, rest] if rest else folders)
    return {**env, variable: name, **({"PYTHONPATH": path} if path else {})}


def shell_of(first_line: bytes) -> str:
    """The shell that a script's first line names, if it is one; ``sh`` otherwise."""
    if first_line.startswith(b"#!"):
        name = os.path.basename(
            first_line[2:].decode("utf-8", "replace").split()[-1] if first_line[2:].split() else ""
        )
        if name in _SHELLS:
            return name
    return "sh"


def run_script(path: str, env: Mapping[str, str]) -> dict[str, str]:
    """Source a script with every assignment exported, read back its environment or raise :class:`VerbError`.

    What it prints goes where this process prints. A script that assigns without ``export`` is a known fault
    of the field, hence ``set -a``.
    """
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        raise VerbError(
            "env-script", f"env_script {path}: {error.strerror}", "the path is one in the container"
        ) from error
    if b"\r\n" in text:
        raise VerbError(
            "env-script", f"env_script {path} has Windows line ends (CR LF)", f"sed -i 's/\\r$//' {path}"
        )
    shell = shell_of(text.split(b"\n", 1)[0])
    checked = subprocess.run([shell, "-n", path], env=dict(env), stdin=subprocess.DEVNULL, check=False)
    if checked.returncode:
        raise VerbError(
            "env-script", f"env_script {path} is no valid {shell} script", "its message stands above"
        )
    # /proc/self/environ of the last program is what the script exported, whatever is in the values
    source = 'set -a; . "$1" >&2; exec cat /proc/self/environ'
    done = subprocess.run(
        [shell, "-c", source, shell, path],
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode or not done.stdout:
        raise VerbError(
            "env-script",
            f"env_script {path} ended the shell (status {done.returncode}), its variables are lost",
            "it is sourced: use return in place of exit, and see its message above",
        )
    pairs = (item.partition("=") for item in os.fsdecode(done.stdout).split("\0") if "=" in item)
    return after_script(env, {name: value for name, _, value in pairs})


def find_program(name: str, path: str) -> str:
    """The program to run: as it is if it has a slash, else beside the interpreter, else on PATH."""
    if "/" in name:
        return name
    for folder in [os.path.dirname(sys.executable), *path.split(":")]:
        candidate = os.path.join(folder or ".", name)
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    raise VerbError(
        "no-program",
        f"{name} is neither beside {sys.executable} nor on PATH ({path})",
        "container.python names the interpreter that vllm is installed with",
    )


#: Where vllm declares the options of its server; in 0.32 it is the second.
_SERVE_OPTIONS = ("entrypoints/openai/cli_args.py", "entrypoints/launchers/cli_args.py")


def with_known_flags(argv: Sequence[str], stop_timeout: float) -> list[str]:
    """Add flags that ``vllm serve`` is better started with, where the installed vllm knows them.

    Whether it does is read from its source beside the program; nothing is imported. A flag that is given
    already stays as it is.
    """
    rest = list(argv)
    if rest[1:2] != ["serve"]:
        return rest
    given = {arg.split("=", 1)[0].replace("_", "-") for arg in rest}
    try:
        program = find_program(rest[0], os.environ.get("PATH", ""))
    except VerbError:
        return rest  # the gate says so, in the unit's log
    # without it TERM makes vllm KILL its workers, which leaves shared memory behind
    if "--shutdown-timeout" not in given and b"shutdown-timeout" in _source(program, "engine/arg_utils.py"):
        rest += ["--shutdown-timeout", str(max(1, int(stop_timeout * 2 / 3)))]
    # the checks come every few seconds: their lines would be most of the log
    quiet = "--disable-access-log-for-endpoints"
    told = given & {quiet, "--disable-uvicorn-access-log"}
    known = any(b"disable_access_log_for_endpoints" in _source(program, path) for path in _SERVE_OPTIONS)
    if known and not told:
        rest += [quiet, "/health,/metrics"]
    return rest


def _source(program: str, path: str) -> bytes:
    """A file of the vllm that a program belongs to; b"" when there is none."""
    for package in _packages(program):
        try:
            with open(f"{package}/vllm/{path}", "rb") as file:
                return file.read()
        except OSError:
            continue
    return b""


def _packages(program: str) -> list[str]:
    folders = [os.environ.get("PYTHONPATH", "")] if os.environ.get("PYTHONPATH") else []
    for prefix in dict.fromkeys(
        os.path.dirname(os.path.dirname(p)) for p in (program, os.path.realpath(program))
    ):
        try:
            versions = sorted(os.listdir(prefix + "/lib"))
        except OSError:
            continue
        for version in versions:
            if version.startswith("python3"):
                folders += [f"{prefix}/lib/{version}/{kind}-packages" for kind in ("site", "dist")]
    return folders


def describe(select: Mapping[str, Any]) -> str:
    """The selection in words, for the log."""
    return (
        " ".join(f"{name}={value}" for name, value in select.items() if value is not None)
        or "no cards selected"
    )
