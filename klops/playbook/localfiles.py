"""Files of the control node that tasks name: looked for beside the playbook."""

from __future__ import annotations

from pathlib import Path

from klops.errors import TaskFailed
from klops.playbook.shipped import folders as shipped_folders
from klops.yamlsource import nearest


def read_local(playbook: Path, kind: str, path: str) -> bytes:
    """Content of a file named ``path``; ``kind`` is the folder it may be in, ``files`` or ``templates``.

    A relative path is looked for in ``KIND/`` beside the playbook, beside the playbook itself, in ``KIND/``
    beside the playbook's folder (a project keeps ``playbooks/`` and ``templates/`` side by side), and last
    among those that klops ships, so that a copy of a shipped playbook works wherever it lies.
    Raises :class:`TaskFailed`.
    """
    for place in _places(playbook, kind, path):
        if place.is_dir():
            raise TaskFailed(f"{place} is a folder", hint="name one file", code="local-file")
        if place.is_file():
            try:
                return place.read_bytes()
            except OSError as error:
                raise TaskFailed(f"{place}: {error.strerror}", code="local-file") from error
    raise missing(playbook, kind, path)


def is_missing(playbook: Path, kind: str, path: str) -> bool:
    """Whether nothing is there under that name now."""
    return not any(place.exists() for place in _places(playbook, kind, path))


def missing(playbook: Path, kind: str, path: str) -> TaskFailed:
    """The error for a file that isn't there: where it was looked for, and the nearest that is there."""
    places = _places(playbook, kind, path)
    near = nearest(places[0].name, [name for place in places for name in _siblings(place)])
    hint = f"did you mean {near}?" if near else "put it into one of these places, or correct the name"
    text = f"no file {path!r} on this machine; looked for {', '.join(map(str, places))}"
    return TaskFailed(text, hint=hint, code="local-file")


def _places(playbook: Path, kind: str, path: str) -> list[Path]:
    folder, given = playbook.resolve().parent, Path(path).expanduser()
    if given.is_absolute():
        return [given]
    own = [folder / kind / path, folder / path, folder.parent / kind / path]
    return list(dict.fromkeys([*own, *(shipped / path for shipped in shipped_folders(kind))]))


def _siblings(place: Path) -> list[str]:
    try:
        return [entry.name for entry in place.parent.iterdir() if entry.is_file()]
    except OSError:
        return []
