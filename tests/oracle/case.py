"""The playbooks: a folder each, with what is expected of them where that isn't "the same as Ansible".

``cases/NAME/play.yml`` begins with a comment that says what it shows. ``case.yml`` beside it is optional:

``runs``
    name -> words added to the command line of both tools; without it there is one run without any.
``connection``
    ``ssh``: Ansible goes through ssh too. klops always does.
``env``
    variables of both tools' environment.
``again``
    task name -> why it changes something in a second run as well.
``unpredicted``
    task name -> why a dry run can't tell what it does; it must be one that the dry run does get wrong.
``differs``
    what klops does otherwise on purpose: ``row`` is text of a row of a table of docs/en/playbooks.md or
    modules.md, and either ``load`` (klops refuses the file, and this is in the message), or ``paths``: path
    of an observation -> what klops gives (null: nothing). ``runs`` names the runs it is about; without it
    all.

``seed/`` is laid over each host's scratch folder; ``inventory/`` is a further inventory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

CASES = Path(__file__).parent / "cases"
_KEYS = {"runs", "connection", "env", "again", "unpredicted", "differs"}


@dataclass(frozen=True)
class Difference:
    """A difference that is meant: the row of the docs, and a refusal at load or values of klops by path."""

    row: str
    load: str = ""
    paths: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One playbook with one command line."""

    name: str
    folder: Path
    args: tuple[str, ...] = ()
    connection: str = "local"
    env: Mapping[str, str] = field(default_factory=dict)
    again: Mapping[str, str] = field(default_factory=dict)
    unpredicted: Mapping[str, str] = field(default_factory=dict)
    differs: tuple[Difference, ...] = ()

    @property
    def refused(self) -> Difference | None:
        """The difference that klops doesn't load the file at all."""
        return next((difference for difference in self.differs if difference.load), None)

    @property
    def checks(self) -> bool:
        """Whether the command line itself asks for a dry run."""
        return "--check" in self.args

    def __str__(self) -> str:
        return self.name


def load_cases() -> list[Case]:
    """Every run of every playbook, by name."""
    return [case for folder in sorted(CASES.iterdir()) if folder.is_dir() for case in load_case(folder)]


def load_case(folder: Path) -> list[Case]:
    """The runs of one playbook; :class:`ValueError` when its description can't be right."""
    source = folder / "case.yml"
    said: dict[str, Any] = (YAML(typ="safe").load(source) or {}) if source.is_file() else {}
    if unknown := sorted(set(said) - _KEYS):
        raise ValueError(f"{source}: {unknown}: not one of {sorted(_KEYS)}")
    first = (folder / "play.yml").read_text("utf-8").split("\n", 1)[0]
    if not first.startswith("# "):
        raise ValueError(f"{folder}/play.yml has to begin with a comment that says what it shows")
    found = []
    for name, words in (said.get("runs") or {"": []}).items():
        differs = tuple(
            Difference(each["row"], each.get("load", ""), each.get("paths") or {})
            for each in said.get("differs", ())
            if name in each.get("runs", [name])
        )
        found.append(
            Case(
                name=f"{folder.name}:{name}" if name else folder.name,
                folder=folder,
                args=tuple(str(word) for word in words),
                connection=said.get("connection", "local"),
                env=said.get("env", {}),
                again=said.get("again", {}),
                unpredicted=said.get("unpredicted", {}),
                differs=differs,
            )
        )
    return found
