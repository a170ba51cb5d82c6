"""The verb ``patch``: one file of site-packages replaced, or changed by a diff; it can be taken back."""

from __future__ import annotations

import io
import os
import time
import warnings
from typing import Any, NamedTuple

from klops.agent.errors import VerbError
from klops.agent.packages import contents, diffing, journal, known, pristine, running, sites, uv
from klops.agent.packages.install import Way
from klops.agent.packages.places import Places, refused
from klops.agent.packages.pristine import Target
from klops.agent.packages.sites import Site


class Request(NamedTuple):
    """``kind``: ``copy`` (``data`` is the new content) or ``diff``; ``digest``: sha256 of ``data``; ``test``:
    a command of the shell that must succeed afterwards, within ``timeout`` seconds."""

    file: str
    kind: str
    data: bytes
    digest: str
    test: str | None
    timeout: float
    revert: bool
    run: str


def patch(places: Places, request: Request, way: Way) -> dict[str, Any]:
    """``{"before", "after", "changed", "assumed", "offsets"}``, the first two being sha256 of the file.

    ``assumed``: no RECORD has a digest of the file, so that it was taken as pristine when it was first
    patched. ``offsets``: ``[hunk, lines]`` of a diff that did not fit where it said. Raises
    :class:`VerbError`; then the file is as it was.
    """
    site = sites.ask()
    with places.locked():
        try:
            journal.put_back(places, site)
            target = pristine.look(places, site, request.file)
            if request.revert:
                return _revert(places, target)
            return _apply(places, site, target, request, way)
        except OSError as error:
            raise refused(error) from error


def _revert(places: Places, target: Target) -> dict[str, Any]:
    note = target.known
    if note is None:
        if target.record is not None and target.sha256 != target.record:
            raise pristine.foreign(target)
        return _result(target, target.sha256, assumed=False)
    if target.patched:
        base = pristine.base(places, target, "", "")
        _put(target, base.path)
        known.note_patch(places, target.file, None)
        return _result(target, base.sha256, assumed=base.assumed)
    if target.sha256 not in (note["pristine"], target.record):
        raise pristine.foreign(target)
    known.note_patch(places, target.file, None)
    return _result(target, target.sha256, assumed=bool(note["assumed"]))


def _apply(places: Places, site: Site, target: Target, request: Request, way: Way) -> dict[str, Any]:
    note = target.known
    if (
        note is not None
        and (target.sha256, request.digest) == (note["patched"], note["patch"])
        and not note.get("pending")
    ):
        return _result(target, target.sha256, assumed=bool(note["assumed"]))
    base = pristine.base(places, target, request.digest, request.kind)
    with open(base.path, "rb") as file:
        content = file.read()
    patched = diffing.Patched(request.data, ())
    if request.kind == "diff":
        patched = diffing.apply(content, request.data, target.file)
    _compile(target, patched.content)
    first = contents.keep(places.pristine, base.path)
    second = _keep(places, patched.content)
    entry = {
        "pristine": first,
        "patched": second,
        "patch": request.digest,
        "kind": request.kind,
        "distribution": target.distribution,
        "version": target.version,
        "assumed": base.assumed,
        "path": target.path,
        "run": request.run,
    }
    # known before it is there: one that is killed in between must find its own content, not somebody's
    former, earlier = _earlier(places, target, first)
    known.note_patch(places, target.file, {**entry, "former": former, "pending": True})
    try:
        _put(target, f"{places.patched}/{second}")
        _test(places, site, target, request, way)
    except (VerbError, OSError, KeyboardInterrupt):
        _put(target, f"{places.patched}/{former}" if former else f"{places.pristine}/{first}")
        known.note_patch(places, target.file, earlier)
        raise
    known.note_patch(places, target.file, entry)
    offsets = [list(pair) for pair in patched.offsets]
    return {**_result(target, second, assumed=base.assumed), "offsets": offsets}


def _earlier(places: Places, target: Target, first: str) -> tuple[str | None, dict[str, Any] | None]:
    """What the file goes back to when the patch fails, None being the pristine content, and the note on that.

    A patch that was cut off before its test had ended is nothing to go back to.
    """
    note = target.known
    if note is not None and note.get("pending"):
        former = note.get("former")
        return former, known.patch_of(known.patches(places), target.file, former) if former else None
    return target.sha256 if target.sha256 != first else None, note


def _keep(places: Places, content: bytes) -> str:
    """Keep a patched content; its digest."""
    os.makedirs(places.patched, mode=0o700, exist_ok=True)
    new = f"{places.patched}/{contents.BESIDE}content"
    contents.put(new, io.BytesIO(content), 0o600, (os.geteuid(), os.getegid()))
    try:
        return contents.keep(places.patched, new)
    finally:
        os.unlink(new)


def _put(target: Target, source: str) -> None:
    """Put a content in the file's place, mode and owner kept. Raises ``OSError`` and :class:`VerbError`."""
    with open(source, "rb") as file:
        digest = contents.put(target.path, file, *contents.owned(target.path))
    contents.forget_compiled(target.path)
    found = contents.sha256(target.path)
    if found != digest:
        raise VerbError(
            "changed-meanwhile",
            f"{target.path} has sha256 {found} right after {digest} was put there",
            "repeat it",
        )


def _compile(target: Target, content: bytes) -> None:
    """Raises :class:`VerbError` when a Python file is none."""
    if not target.path.endswith(".py"):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an escape in somebody's text: no reason against it
            compile(content, target.path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f"line {line}: " if line else ""
        raise VerbError(
            "patch-compile",
            f"{target.file}, patched, is no Python that this interpreter takes: {where}{error}",
            "the file is as it was: correct the patch",
        ) from error


def _test(places: Places, site: Site, target: Target, request: Request, way: Way) -> None:
    """Raises :class:`VerbError` when the command fails, or isn't done in time."""
    if request.test is None:
        return
    path = f"{os.path.dirname(site.python)}:{os.environ.get('PATH', os.defpath)}"
    until = time.monotonic() + request.timeout
    try:
        argv, env = ["/bin/sh", "-c", request.test], {**os.environ, "PATH": path}
        done = running.run(places, argv, env, until, lambda line: None, way.gone)
    except VerbError as failure:
        if failure.code != "timeout":
            raise
        raise _untested(target, f"was not done within {request.timeout:g} s") from failure
    if done.code != 0:
        raise _untested(target, f"ended with {done.code}: {uv.shown(done.said)}")


def _untested(target: Target, why: str) -> VerbError:
    return VerbError(
        "patch-test",
        f"{target.file}: the test of the patch {why}",
        "the file is as it was: correct the patch or its test",
    )


def _result(target: Target, after: str, *, assumed: bool) -> dict[str, Any]:
    return {
        "before": target.sha256,
        "after": after,
        "changed": after != target.sha256,
        "assumed": assumed,
        "offsets": [],
    }
