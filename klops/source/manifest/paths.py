"""Which entries may be put into a folder without reaching out of it.

Whoever writes a tree asks three times: :func:`problems` before anything is written, :func:`link_problems`
once it is known what the links point to, and nothing is written through a link meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from klops.source.manifest.entry import LINK, Entry

#: Bytes that Linux takes for one name, and for a path (NAME_MAX, and PATH_MAX without its zero byte).
LONGEST_NAME, LONGEST_PATH = 255, 4095
#: Links that Linux follows in one path before it gives up (path_resolution(7)).
MOST_LINKS = 40


def problem(path: str) -> str | None:
    """Why no entry may have this path, in a few words; None when it may."""
    parts = path.split("/")
    if path.startswith("/"):
        return "is absolute"
    if "\0" in path:
        return "holds a zero byte"
    if "" in parts or "." in parts:
        return "has an empty part"
    if ".." in parts:
        return "leads out of the tree"
    raw = path.encode("utf-8", "surrogateescape")
    if len(raw) > LONGEST_NAME and (
        len(raw) > LONGEST_PATH or any(len(part) > LONGEST_NAME for part in raw.split(b"/"))
    ):
        return "is longer than Linux takes"
    return None


def problems(entries: Iterable[Entry]) -> list[str]:
    """What is wrong with the paths of a tree, one line each; what links point to is not looked at."""
    found: list[str] = []
    kinds: dict[str, str] = {}
    for entry in entries:
        why = problem(entry.path)
        if why is not None:
            found.append(f"{entry.path!r} {why}")
        elif entry.path in kinds:
            found.append(f"{entry.path!r} is there twice")
        kinds[entry.path] = entry.kind
    clear = {""}
    for path in kinds:
        above = path.rpartition("/")[0]
        passed: list[str] = []
        while above not in clear and above not in kinds:
            passed.append(above)
            # not posixpath.dirname, which never gets above a "/" at the beginning
            above = above.rpartition("/")[0]
        if above in kinds:
            what = "a link" if kinds[above] == LINK else "a file"
            found.append(f"{path!r} lies below {what}")
        else:
            clear.update(passed)
    return found


def link_problems(targets: Mapping[str, str]) -> list[str]:
    """What is wrong with the symbolic links of a tree, one line each.

    ``targets``: what each link points to, by its path; all links of the tree, since one may lead through
    others.
    """
    found = ((path, _link_problem(path, targets)) for path in targets)
    return [f"{path!r} {why}" for path, why in found if why is not None]


def _link_problem(path: str, targets: Mapping[str, str]) -> str | None:
    """Follow the link step by step, as Linux would. What isn't there is taken for a folder: it may come to be
    one.

    A link that leads in a circle, or through more links than Linux follows, leads nowhere: that is no
    problem.
    """
    target = targets[path]
    if not target or "\0" in target:
        return "links to nothing"
    if target.startswith("/"):
        return f"links to {target!r}, which is absolute"
    at = path.split("/")[:-1]
    steps = _steps(target)
    followed = 1
    while steps:
        step = steps.pop()
        if step == "..":
            if not at:
                return f"links to {target!r}, out of the tree"
            at.pop()
            continue
        led = targets.get("/".join([*at, step]))
        if led is None:
            at.append(step)
            continue
        followed += 1
        if followed > MOST_LINKS:
            return None
        if led.startswith("/"):
            return f"links to {target!r}, out of the tree by another link"
        steps += _steps(led)
    return None


def _steps(target: str) -> list[str]:
    """The parts of what a link points to, the last one first."""
    return [part for part in reversed(target.split("/")) if part not in ("", ".")]
