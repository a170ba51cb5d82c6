"""Where the playbooks of klops' own commands are, and which one wins."""

from __future__ import annotations

from pathlib import Path

from klops.errors import UsageError

#: whose a playbook is
SHIPPED, LOCAL = "shipped", "local"

#: in a wheel the playbooks are package data; in a checkout they lie beside the package
_PACKAGE = Path(__file__).resolve().parent.parent
_FOLDERS = (_PACKAGE / "shipped" / "playbooks", _PACKAGE.parent / "playbooks")


def folders(kind: str) -> list[Path]:
    """Where the files are that shipped playbooks name; ``kind`` is ``files`` or ``templates``."""
    beside = (playbooks.parent / kind for playbooks in _FOLDERS)
    return [folder for folder in beside if folder.is_dir()]


def find(name: str, *, working_directory: Path | None = None) -> tuple[Path, str]:
    """The file of a command's playbook, such as ``up.yml``, and whose it is.

    ``./playbooks/NAME`` of the working directory wins (:data:`LOCAL`) over the shipped one (:data:`SHIPPED`).
    """
    own = (working_directory or Path.cwd()) / "playbooks" / name
    for folder in _FOLDERS:
        shipped = folder / name
        if not shipped.is_file():
            continue
        if own.is_file() and not own.samefile(shipped):
            return own, LOCAL
        return shipped, SHIPPED
    if own.is_file():
        return own, LOCAL
    raise UsageError(
        f"no playbook {name}", hint=f"looked in {own.parent} and {', '.join(map(str, _FOLDERS))}"
    )
