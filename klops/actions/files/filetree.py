"""``file`` with ``recurse``: owner and mode of all that is below a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klops.actions.base import Seen, Step
from klops.actions.files.filesteps import SetBelow
from klops.actions.files.ownership import bits, numbers
from klops.actions.steps import owner_text
from klops.commands.listing import parse
from klops.errors import TaskFailed

if TYPE_CHECKING:
    from klops.actions.files.file import FileParams


def below(params: FileParams, path: str, seen: Seen) -> list[Step]:
    """One step for each owner or mode that something below the folder has to get.

    Links are changed themselves (their owner; they have no mode), what they lead to is left alone. Raises
    :class:`TaskFailed` when the tree could not be read whole.
    """
    reply = seen.replies["tree"]
    if not reply.ok:
        raise TaskFailed(f"{path} can't be read whole: {reply.error_text.strip()}", code="unreadable")
    text = reply.stdout.decode("utf-8", "surrogateescape")
    entries = parse(text)
    if len(entries) != len(text.splitlines()):
        hint = "rename it (find -name '*[[:cntrl:]]*' shows it), or use command: chmod -R"
        raise TaskFailed(f"a name below {path} can't be read in a listing", hint=hint, code="unreadable")
    uid, gid = numbers(params, seen)
    top = params.path.rstrip("/") + "/"
    owned = [
        name
        for name, entry in entries.items()
        if name != top and (uid not in (None, entry.uid) or gid not in (None, entry.gid))
    ]
    found: list[Step] = []
    if owned:
        found.append(SetBelow(path, tuple(sorted(owned)), owner=owner_text(uid, gid)))
    modes: dict[int, list[str]] = {}
    for name, entry in entries.items():
        wanted = bits(params.mode, entry, is_dir=entry.type == "directory")
        if name == top or entry.type == "link" or wanted is None:
            continue
        if entry.mode != wanted or (name in owned and wanted & 0o6000):
            modes.setdefault(wanted, []).append(name)
    # from the leaves up: a folder that loses its x bit can't be entered afterwards
    found += [
        SetBelow(path, tuple(sorted(names, reverse=True)), mode=wanted) for wanted, names in modes.items()
    ]
    return found
