"""Files of the control node that tasks name: looked for beside the playbook."""

from __future__ import annotations

from pathlib import Path

from klops.errors import TaskFailed


def read_local(playbook: Path, kind: str, path: str) -> bytes:
    """Content of a file named ``path``; ``kind`` is the folder it may be in, ``files`` or ``templates``.

    A relative path is looked for in ``KIND/`` beside the playbook, beside the playbook itself, and in
    ``KIND/`` beside the playbook's folder (a project keeps ``playbooks/`` and ``templates/`` side by side).
    Raises :class:`TaskFailed`.
    """
    folder = playbook.resolve().parent
    given = Path(path).expanduser()
    places = (
        [given] if given.is_absolute() else [folder / kind / path, folder / path, folder.parent / kind / path]
    )
    for place in places:
        if place.is_dir():
            raise TaskFailed(f"{place} is a folder", hint="name one file", code="local-file")
        if place.is_file():
            try:
                return place.read_bytes()
            except OSError as error:
                raise TaskFailed(f"{place}: {error.strerror}", code="local-file") from error
    looked = ", ".join(str(place) for place in places)
    raise TaskFailed(f"no file {path!r} on this machine", hint=f"looked for {looked}", code="local-file")
