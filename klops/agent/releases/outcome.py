"""What a build comes to: another release, of all that is in the tree when its commands have ended."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import Any, Dict, List, NamedTuple

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.releases import files, installs, known
from klops.agent.releases.places import Places
from klops.agent.releases.publish import publish
from klops.source.manifest import FILE, LINK, Entry, Release, digest, release


class Build(NamedTuple):
    """What is asked for."""

    name: str
    commands: List[str]
    #: seconds, for all of it
    timeout: float
    env: Dict[str, str]
    #: ``{package, path, globs}``: files of the installed package that the release lacks
    carry: List[Dict[str, Any]]
    #: distributions that the commands install
    installs: List[str]


def publish_built(places: Places, source: Release, asked: Build, tree: bytes) -> None:
    """What is there now becomes a release, with a manifest of its own; its files become read-only.

    Raises :class:`VerbError` and ``OSError``.
    """
    entries = []
    for path, full in known.contents(tree):
        status = os.lstat(full)
        text = path.decode("utf-8", "surrogateescape")
        if stat.S_ISLNK(status.st_mode):
            target = os.readlink(full)
            summed = hashlib.sha256(target).hexdigest()
            entries.append(Entry(text, LINK, 0o777, len(target), summed))
        elif stat.S_ISREG(status.st_mode):
            mode = 0o755 if status.st_mode & 0o111 else 0o644
            entry = Entry(text, FILE, mode, status.st_size, "")
            os.chmod(full, known.mode_of(entry))
            entries.append(entry._replace(sha256=files.sha256(full)))
        else:
            raise VerbError(
                "build-failed",
                f"the build of {asked.name} left {text}, which is no file",
                f"have its commands remove it; all they said is in {places.build_log(asked.name)}",
            )
    folders = list(files.folders(tree))
    for folder in folders:
        os.chmod(folder, known.FOLDER_MODE)
    ordered = tuple(release.ordered(entries))
    about = {**source.about, "built_from": source.name, "commands": asked.commands}
    if asked.installs:
        installed = installs.records(asked.installs)
        missing = [name for name, record in installed.items() if record is None]
        if missing:
            raise VerbError(
                "build-failed",
                f"after the build of {asked.name} there is no RECORD of {', '.join(missing)}",
                "klops.source.build.installs names what the commands install, from a wheel",
            )
        about.update(installs=asked.installs, installed=installed)
    written = [tree + b"/" + entry.raw for entry in ordered if entry.kind == FILE]
    manifest, made = os.fsdecode(tree) + ".json", Release(asked.name, digest(ordered), about, ordered)
    store.write_text(manifest, made.dumps().decode("ascii"), mode=0o644)
    publish(places, asked.name, tree, manifest, [*written, *folders])
    files.flush_one(os.fsencode(places.folder))
