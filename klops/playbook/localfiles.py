"""Files of the control node that tasks name: looked for beside the file a task stands in, then the play's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from klops.errors import TaskFailed
from klops.playbook.shipped import folders as shipped_folders
from klops.userfolders import expanded
from klops.yamlsource import nearest


def read_local(files: Sequence[Path], kind: str, path: str) -> bytes:
    """Content of a file named ``path``; ``kind`` is the folder it may be in, ``files`` or ``templates``.

    ``files`` are the task's file and the play's. A relative path is looked for, for each of them, in
    ``KIND/`` beside it, beside it, and in ``KIND/`` beside its folder (a project keeps ``playbooks/`` and
    ``templates/`` side by side); and last among those that klops ships, so that a copy of a shipped playbook
    works wherever it lies. Raises :class:`TaskFailed`.
    """
    for place in places(files, kind, path):
        if place.is_dir():
            raise TaskFailed(f"{place} is a folder", hint="name one file", code="local-file")
        if place.is_file():
            try:
                return place.read_bytes()
            except OSError as error:
                raise TaskFailed(f"{place}: {error.strerror}", code="local-file") from error
    raise missing(files, kind, path)


def is_missing(files: Sequence[Path], kind: str, path: str) -> bool:
    """Whether nothing is there under that name now."""
    return not any(place.exists() for place in places(files, kind, path))


def missing(files: Sequence[Path], kind: str, path: str) -> TaskFailed:
    """The error for a file that isn't there: where it was looked for, and the nearest that is there."""
    looked = places(files, kind, path)
    near = nearest(looked[0].name, [name for place in looked for name in _siblings(place)])
    hint = f"did you mean {near}?" if near else "put it into one of these places, or correct the name"
    text = f"no file {path!r} on this machine; looked for {', '.join(map(str, looked))}"
    return TaskFailed(text, hint=hint, code="local-file")


def places(files: Sequence[Path], kind: str, path: str) -> list[Path]:
    """Where a file may be, in the order in which it is looked for; an absolute path is the only place."""
    given = expanded(path)
    if given.is_absolute():
        return [given]
    found: list[Path] = []
    for file in files:
        folder = file.resolve().parent
        found += [folder / kind / path, folder / path, folder.parent / kind / path]
    return list(dict.fromkeys([*found, *(shipped / path for shipped in shipped_folders(kind))]))


def shown_path(place: Path) -> str:
    """A file as a person would name it: from the working directory when it is below that."""
    here = Path.cwd()
    return str(place.relative_to(here) if place.is_relative_to(here) else place)


def _siblings(place: Path) -> list[str]:
    try:
        return [entry.name for entry in place.parent.iterdir() if entry.is_file()]
    except OSError:
        return []
