"""What documents and messages say is tried: inventories load, commands are there, tables match the code."""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from klops.actions.catalog import catalog
from klops.cli.main import program
from klops.inventory import load
from klops.inventory.settings import Service, Settings
from klops.playbook.load.plays import load_playbook
from klops.secret import Redactor
from klops.sim.faults import EXAMPLES

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "README.zh.md", *sorted((ROOT / "docs").glob("*/*.md"))]
LANGUAGES = ["en", "zh"]


def blocks(document: Path, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", document.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def command_lines() -> Iterator[Any]:
    for document in DOCUMENTS:
        text = document.read_text("utf-8")
        lines = re.findall(r"^\$ (klops .*)$", text, re.MULTILINE)
        # in running text: everything that begins with a real command, but for placeholders and ellipses
        lines += [
            line for line in re.findall(r"`(klops [^`]+)`", text) if line.islower() and "..." not in line
        ]
        for number, line in enumerate(dict.fromkeys(lines)):
            yield pytest.param(line, id=f"{document.relative_to(ROOT)}:{number}")


@pytest.mark.parametrize("line", list(command_lines()))
def test_every_command_line_can_be_parsed(line: str) -> None:
    words = shlex.split(line)[1:]
    command = program()
    while hasattr(command, "commands"):
        if words[:1] and words[0].startswith("-"):
            # an option of the program itself
            assert words[0] in {
                option
                for p in command.get_params(command.make_context("klops", [], resilient_parsing=True))
                for option in p.opts
            }
            return
        if not words:
            return
        assert words[0] in command.commands, line
        command, words = command.commands[words[0]], words[1:]
    if words:
        command.make_context("klops", words)


#: what follows the name klops in messages where no command is meant
PROSE = [
    *("again", "and", "asks", "can", "did", "does", "doesn", "downloads", "enter", "gathers", "has", "in"),
    *("is", "keeps", "knows", "launcher", "lists", "looks", "made", "make", "never", "on", "only", "open"),
    *("put", "reads", "runs", "sends", "sets", "settings", "shows", "supervisor", "tells", "with", "would"),
    *("writes",),
]


def texts_of(source: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every string in a source file but docstrings; X stands for what is filled in."""
    tree = ast.parse(source.read_text("utf-8"))
    passed: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            passed.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            passed.update(node.values)
            parts = [part.value if isinstance(part, ast.Constant) else "X" for part in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in passed:
            yield node.lineno, node.value


def commands_in_messages() -> Iterator[Any]:
    for source in sorted((ROOT / "klops").rglob("*.py")):
        for line, text in texts_of(source):
            # the command, and after it options and placeholders
            for match in re.finditer(
                r"\bklops ([a-z]+)((?: (?:--?[a-z-]*|[A-Z]+)(?![\w]))*)( [a-z]+)?", text
            ):
                if match[1] not in PROSE:
                    yield pytest.param(*match.groups(), id=f"{source.relative_to(ROOT)}:{line}-{match[0]}")


@pytest.mark.parametrize(("name", "options", "after"), list(commands_in_messages()))
def test_every_command_that_a_message_names_is_there(name: str, options: str, after: str | None) -> None:
    command = program().commands.get(name)
    assert command is not None, f"no command klops {name}"
    if hasattr(command, "commands"):
        assert (after or "").strip() in command.commands
        return
    known = {option for parameter in command.params for option in parameter.opts}
    wanted = {word for word in options.split() if word.startswith("-") and word != "--"}
    assert wanted <= known


def messages(language: str) -> list[str]:
    """The first column of the table of messages at the end of the quick start."""
    text = (ROOT / "docs" / language / "quickstart.md").read_text("utf-8")
    table = re.split(r"^\| (?:message|信息) \| ", text, flags=re.MULTILINE)[1]
    return re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_messages_of_the_quick_start_are_those_that_klops_prints(language: str) -> None:
    told = messages(language)
    assert len(told) > 15
    assert told == messages("en")
    printed = [text for source in sorted((ROOT / "klops").rglob("*.py")) for _, text in texts_of(source)]
    for message in [one for cell in told for one in cell.split(", or ")]:
        # what stands for a part that is filled in
        parts = re.split(r"\.\.\.|\b(?:NAME|FILE|IMAGE|PYTHON)\b", message)
        pattern = ".*".join(re.escape(part.strip()) for part in parts if part.strip())
        assert any(re.search(pattern, text) for text in printed), message


@pytest.mark.parametrize(
    "document", [d for d in DOCUMENTS if blocks(d, "yaml")], ids=lambda d: str(d.relative_to(ROOT))
)
def test_every_yaml_block_is_a_valid_inventory_or_playbook(document: Path, tmp_path: Path) -> None:
    for text in blocks(document, "yaml"):
        file = tmp_path / "example.yml"
        file.write_text(text, "utf-8")
        if text.startswith("- "):
            assert load_playbook(file, catalog()).plays
            continue
        inventory = load([str(file)])
        assert inventory.hosts
        for host in inventory.hosts:
            assert inventory.settings(host).services
            assert inventory.connection(host).user == "root"


@pytest.mark.parametrize(
    "document", [d for d in DOCUMENTS if blocks(d, "ini")], ids=lambda d: str(d.relative_to(ROOT))
)
def test_every_ini_block_is_a_valid_inventory(document: Path, tmp_path: Path) -> None:
    for text in blocks(document, "ini"):
        file = tmp_path / "hosts.ini"
        file.write_text(text, "utf-8")
        inventory = load([str(file)])
        inventory.check()
        assert inventory.hosts


def test_what_the_example_fleet_has_in_comments_is_valid_too(tmp_path: Path) -> None:
    example = ROOT / "inventory"
    text = (example / "group_vars" / "p800.yml").read_text("utf-8")
    uncommented, lines = re.subn(r"^  # (source:|stack:|  .*)$", r"  \1", text, flags=re.MULTILINE)
    assert lines > 10
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "p800.yml").write_text(uncommented, "utf-8")
    (tmp_path / "hosts.yml").write_text((example / "hosts.yml").read_text("utf-8"), "utf-8")
    inventory = load([str(tmp_path)])
    inventory.check()
    settings = inventory.settings("p800-01")
    assert settings.source.targets
    assert settings.stack.packages
    assert settings.stack.patches


def test_the_readme_inventory_resolves_its_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "QWEN_API_KEY", "made-up-key")
    file = tmp_path / "hosts.yml"
    file.write_text(blocks(ROOT / "README.md", "yaml")[0], "utf-8")
    redactor = Redactor()
    settings = load([str(file)]).settings("p800-01")
    settings.resolve_secrets(redactor)
    assert redactor("made-up-key") == "********"
    assert settings.services["qwen"].args["gpu-memory-utilization"] == "0.75"
    assert settings.services["qwen"].env["XMLIR_DYNAMO_WORKAROUND"] == "1"


def test_both_readmes_show_the_same_inventory_and_commands() -> None:
    english, chinese = ROOT / "README.md", ROOT / "README.zh.md"
    for kind in ("yaml", "console"):
        assert blocks(english, kind) == blocks(chinese, kind)


@pytest.mark.parametrize("name", [d.name for d in DOCUMENTS if d.parent.name == "en"])
def test_each_document_is_there_in_both_languages_with_the_same_examples(name: str) -> None:
    english, chinese = (ROOT / "docs" / language / name for language in LANGUAGES)
    for kind in ("yaml", "ini", "console", "json", "text"):
        assert blocks(english, kind) == blocks(chinese, kind)
    rows = [len(re.findall(r"^\| ", d.read_text("utf-8"), re.MULTILINE)) for d in (english, chinese)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text("utf-8")):
        assert (document.parent / target).exists(), target


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if get_origin(annotation) in (Annotated, Union, UnionType, list, dict):
        for part in get_args(annotation):
            yield from models_in(part)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        if (model, name) == (Settings, "services"):
            continue
        below = list(models_in(field.annotation))
        written = prefix + (field.alias or name)
        if not below:
            yield written
        for inner in below:
            yield from keys(inner, f"{written}.")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_setting_is_in_the_table_and_no_other(language: str) -> None:
    text = (ROOT / "docs" / language / "settings.md").read_text("utf-8")
    text = re.split("^## (?:Connection|连接)$", text, flags=re.MULTILINE)[0]
    found = [
        key
        for cell in re.findall(r"^\| (`[^|]+`) \|", text, re.MULTILINE)
        for key in re.findall(r"`([^`]+)`", cell)
    ]
    assert sorted(found) == sorted([*keys(Settings), *keys(Service)])


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_kind_of_fault_is_in_the_table(language: str) -> None:
    text = (ROOT / "docs" / language / "commands.md").read_text("utf-8")
    table = text.partition("| `--fault` | |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
    assert sorted(spec for cell in rows for spec in re.findall(r"`([^`]+)`", cell)) == sorted(EXAMPLES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_28_problems_are_in_the_table(language: str) -> None:
    text = (ROOT / "docs" / language / "problems.md").read_text("utf-8")
    ids = re.findall(r"^\| ([EVPMOI]\d) \|", text, re.MULTILINE)
    counts = {"E": 4, "V": 4, "P": 4, "M": 8, "O": 4, "I": 4}
    assert ids == [f"{letter}{n}" for letter, count in counts.items() for n in range(1, count + 1)]
