"""The forms of a secret setting: a value, ``{env: NAME}``, ``{file: PATH}`` or ``{command: [...]}``."""

from __future__ import annotations

import os
import re
import subprocess
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from klops.errors import UsageError
from klops.inventory.scalars import name, refuse
from klops.secret import Secret
from klops.userfolders import expanded
from klops.yamlsource import ScalarNode

#: Seconds a command may take to print its secret; it may ask its user for a pass phrase.
COMMAND_TIMEOUT = 120.0
FORMS = ("env", "file", "command")
#: Code of the error for a secret that is there, but can't be what it is needed for.
UNUSABLE = "secret-unusable"
_LOGIN = re.compile(r"://[^/\s]*@")


def secret(value: Any) -> Secret:
    """A secret from one of its forms; what is deferred is read when it is first revealed."""
    given = value.value if isinstance(value, ScalarNode) else value
    if isinstance(given, Secret):
        return given
    if not isinstance(value, dict):
        return Secret(name(value))
    if len(value) != 1 or next(iter(value)) not in FORMS:
        refuse(
            "expected a secret",
            "write the value, {env: NAME}, {file: PATH} or {command: [PROGRAM, ARGUMENT]}",
        )
    form, given = next(iter(value.items()))
    if form == "env":
        variable = name(given)
        return Secret(load=_from_environment(variable), source=f"env {variable}")
    if form == "file":
        path = _beside(given)
        return Secret(load=_from_file(path), source=f"file {path}")
    if not isinstance(given, list) or not given:
        refuse("expected a list: the program and its arguments", "write {command: [PROGRAM, ARGUMENT]}")
    argv = [name(part) for part in given]
    return Secret(load=_once(_from_command(argv)), source=f"command {argv[0]}")


def api_key(value: Any) -> Secret:
    """A secret that is sent in a header line: control characters, a line break among them, can't be in it.

    A written value is refused here, a deferred one when it is read.
    """
    found = secret(value)
    if found.source == "value":
        if _has_control(found.reveal()):
            refuse("a key can't hold a line break or another control character", "write it in one line")
        return found
    return Secret(load=_without_control(found), source=found.source)


def _without_control(given: Secret) -> Callable[[], str]:
    def load() -> str:
        value = given.reveal()
        if _has_control(value):
            raise UsageError(
                f"what {given.source} gives holds a line break or another control character",
                hint="a key is one line of printable characters",
                code=UNUSABLE,
            )
        return value

    return load


def _has_control(value: str) -> bool:
    return any(unicodedata.category(character) == "Cc" for character in value)


def index_url(value: Any) -> str | Secret:
    """Where packages are found: a URL as text, or a secret for one with a password in it."""
    if not isinstance(value, str | ScalarNode):
        return secret(value)
    found = name(value)
    if urlsplit(found).scheme not in ("http", "https", "file"):
        refuse(f"expected a URL, found {found!r}" if "@" not in found else "expected a URL", "https://...")
    if "@" in urlsplit(found).netloc:
        refuse(
            "a URL with a user or a password in it is a secret",
            "write {env: NAME}, {file: PATH} or {command: [PROGRAM, ARGUMENT]}",
        )
    return found


def uv_option(value: Any) -> str:
    """An argument of uv; a URL in it has no password, as everybody in the container sees arguments."""
    found = name(value)
    if _LOGIN.search(found):
        refuse(
            "a URL with a user or a password in it is a secret, and arguments are none",
            "klops.stack.index_url takes one as {env: NAME}, {file: PATH} or {command: [PROGRAM, ARGUMENT]}",
        )
    return found


def beside(value: Any) -> str:
    """A file of this machine, as an absolute path."""
    return str(_beside(value).absolute())


def _beside(given: Any) -> Path:
    """``~`` is the user's home; a relative path starts at the file in which it is written."""
    found = expanded(name(given))
    if isinstance(given, ScalarNode) and not found.is_absolute():
        found = Path(given.location.file).parent / found
    return found


def _once(load: Callable[[], str]) -> Callable[[], str]:
    """``load``, that fails again as it did before instead of asking its user a second time."""
    failed: list[UsageError] = []

    def loaded() -> str:
        if failed:
            raise failed[0]
        try:
            return load()
        except UsageError as error:
            failed.append(error)
            raise

    return loaded


def _from_environment(variable: str) -> Callable[[], str]:
    def load() -> str:
        value = os.environ.get(variable, "")
        if not value:
            raise UsageError(f"the environment variable {variable} is not set", hint=f"export {variable}=...")
        return value

    return load


def _from_file(path: Path) -> Callable[[], str]:
    def load() -> str:
        try:
            value = path.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise UsageError(
                f"the file {path} cannot be read: {reason}", hint="check its path and mode"
            ) from None
        if not value:
            raise UsageError(f"the file {path} is empty", hint="write the secret into it")
        return value

    return load


def _from_command(argv: list[str]) -> Callable[[], str]:
    def load() -> str:
        what = f"the command {argv[0]}"
        try:
            # standard input and error stay the user's: a password store may ask for a pass phrase there
            done = subprocess.run(argv, stdout=subprocess.PIPE, check=False, timeout=COMMAND_TIMEOUT)
        except OSError as error:
            raise UsageError(f"{what} cannot be run: {error.strerror}", hint="check its path") from None
        except subprocess.TimeoutExpired:
            raise UsageError(f"{what} did not end within {COMMAND_TIMEOUT:.0f} s") from None
        if done.returncode:
            raise UsageError(f"{what} ended with status {done.returncode}", hint="run it by hand to see why")
        value = done.stdout.decode("utf-8", "replace").rstrip("\r\n")
        if not value:
            raise UsageError(f"{what} printed nothing", hint="it must print the secret on standard output")
        return value

    return load
