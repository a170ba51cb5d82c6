"""Lookups of files of this machine: found as tasks find them, beside the task's file and the playbook."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from klops.errors import TaskFailed
from klops.playbook.localfiles import places, read_local
from klops.playbook.template.lookups.base import Context, flat, only, wrong


def _text(context: Context, kind: str, path: Any) -> str:
    name = _name(path)
    try:
        return read_local(context.beside, kind, name).decode("utf-8")
    except UnicodeDecodeError:
        raise wrong(f"{name} is not UTF-8 text") from None


def _name(path: Any) -> str:
    if not isinstance(path, str) or not path:
        raise wrong(f"a lookup of files takes paths, not {path!r}")
    return path


def _file(context: Context, terms: list[Any], options: dict[str, Any]) -> list[Any]:
    """The text of each file, without white space at its end (``rstrip``), or at its start (``lstrip``)."""
    only("file", options, ("rstrip", "lstrip"))
    found = []
    for term in terms:
        text = _text(context, "files", term)
        if options.get("lstrip", False):
            text = text.lstrip()
        found.append(text.rstrip() if options.get("rstrip", True) else text)
    return found


def _template(context: Context, terms: list[Any], options: dict[str, Any]) -> list[Any]:
    """Each template file rendered to text; ``template_vars`` are variables for it, and Jinja2's settings."""
    more = options.pop("template_vars", {})
    if not isinstance(more, Mapping):
        raise wrong("the lookup template: template_vars must be a dictionary")
    # Jinja2 takes what the text gives as it is; Ansible's conversions of it to data are gone there too
    return [
        context.render(_text(context, "templates", term), name=term, more=more, **options) for term in terms
    ]


def _fileglob(context: Context, terms: list[Any], options: dict[str, Any]) -> list[Any]:
    """Paths of the files, folders left out, that match a pattern in the first folder that has one."""
    only("fileglob", options, ())
    found: list[str] = []
    for term in terms:
        for place in places(context.beside, "files", _name(term)):
            matches = [str(path) for path in _glob(place) if path.is_file()]
            if matches:
                found += matches
                break
    return found


def _glob(pattern: Path) -> Iterator[Path]:
    if any(letter in str(pattern.parent) for letter in "*?["):
        base = Path(pattern.anchor)
        return iter(sorted(base.glob(str(pattern.relative_to(base)))))
    return iter(sorted(pattern.parent.glob(pattern.name)))


def _first_found(context: Context, terms: list[Any], options: dict[str, Any]) -> list[Any]:
    """The path of the first file that is there; ``{files: [...], paths: [...], skip: true}`` may be given."""
    names = ("files", "paths", "skip")
    only("first_found", options, names)
    tried: list[str] = []
    skip = bool(options.get("skip", False))
    wanted = list(_wanted(terms, options))
    for term in terms:
        if isinstance(term, Mapping):
            only("first_found", term, names)
            skip = skip or bool(term.get("skip", False))
    for name in wanted:
        # templates are named too, by a task that goes on to render the file
        for kind in ("files", "templates", "vars"):
            for place in places(context.beside, kind, name):
                if place.is_file():
                    return [str(place)]
        tried.append(name)
    if skip:
        return []
    raise TaskFailed(
        f"first_found: none of these is there: {', '.join(tried) or 'no files were named'}",
        hint="add one that always is, or skip=true",
        code="local-file",
    )


def _wanted(terms: list[Any], options: Mapping[str, Any]) -> Iterator[str]:
    """Names of the files in the order in which they are looked for."""
    for term in (*terms, options) if options.get("files") else terms:
        if isinstance(term, Mapping):
            files, folders = _names(term.get("files", [])), _names(term.get("paths", []))
            yield from ([f"{folder}/{file}" for folder in folders for file in files] if folders else files)
        else:
            yield from _names(term)


def _names(given: Any) -> list[str]:
    return [_name(part) for part in flat([given])]


LOOKUPS: dict[str, Callable[..., list[Any]]] = {
    "file": _file,
    "fileglob": _fileglob,
    "first_found": _first_found,
    "template": _template,
}
