"""The tables same / different / refused say what the code does: every name is in one, with its verdict."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from pydantic import BaseModel

from klops import errors
from klops.actions.catalog import catalog
from klops.actions.control import meta
from klops.actions.facts import hostfacts
from klops.actions.files.ownership import REFUSED
from klops.actions.own.findings import SEVERITY
from klops.inventory.connection import VARIABLES
from klops.playbook.load.foreign import INSTEAD
from klops.playbook.load.keywords import TABLE, Keyword, Place, Verdict
from klops.playbook.load.taskkeywords import LOOP_CONTROL
from klops.playbook.tasks import magic
from klops.playbook.template.filters import FILTERS, TESTS
from klops.playbook.template.filters.refused import REFUSED_FILTERS, REFUSED_TESTS
from klops.playbook.template.lookups import LOOKUPS, unknown_lookup
from tests.oracle.case import load_cases

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LANGUAGES = ["en", "zh"]
VERDICTS = {
    "same": "same",
    "different": "different",
    "refused": "refused",
    "klops' own": "own",
    "一致": "same",
    "有差异": "different",
    "拒绝": "refused",
    "klops 自有": "own",
}
INHERITED = frozenset((Place.PLAY, Place.BLOCK, Place.TASK, Place.HANDLER, Place.IMPORT_TASKS, Place.APPLY))
#: what the column "on" says in one word
PLACES = {
    "inherited": INHERITED,
    "可继承处": INHERITED,
    "below plays": INHERITED - {Place.PLAY},
    "play 以下": INHERITED - {Place.PLAY},
    "everywhere": frozenset(Place),
    "所有位置": frozenset(Place),
    **{place.value: frozenset((place,)) for place in Place},
}


@dataclass(frozen=True)
class Row:
    """One row of a table; ``text`` is without the marks of code."""

    names: tuple[str, ...]
    cells: tuple[str, ...]
    text: str

    @property
    def verdict(self) -> str:
        """The verdict, from the last cell but one that has one."""
        return next(VERDICTS[cell] for cell in self.cells if cell in VERDICTS)


def plain(text: str) -> str:
    return text.replace("`", "").replace("\\|", "|")


@cache
def tables(language: str, name: str) -> dict[str, list[Row]]:
    """Rows of the tables of a page by the first word of their heads; tables with equal heads are one."""
    found: dict[str, list[Row]] = {}
    rows: list[Row] = []
    lines = (DOCS / language / name).read_text("utf-8").splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if not line.startswith("|"):
            continue
        cells = tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        if following.startswith("|---"):
            rows = found.setdefault(cells[0], [])
        elif not line.startswith("|---"):
            rows.append(Row(tuple(re.findall(r"`([^`]+)`", cells[0])), cells, plain(line)))
    return found


def rows(language: str, name: str, english: str, chinese: str) -> list[Row]:
    return tables(language, name)[english if language == "en" else chinese]


def by_name(found: Iterable[Row]) -> dict[str, Row]:
    return {name: row for row in found for name in row.names}


def bare(names: Iterable[str]) -> set[str]:
    return {name for name in names if "." not in name}


def has_each(language: str, refusals: dict[str, str], found: dict[str, Row]) -> None:
    """That each name is refused in a row; the English one gives the alternative in the code's words."""
    for name, instead in refusals.items():
        assert found[name].verdict == "refused", name
        if language == "en":
            assert plain(instead) in found[name].text, name


@pytest.mark.parametrize("keyword", TABLE, ids=lambda keyword: keyword.name)
@pytest.mark.parametrize("language", LANGUAGES)
def test_each_keyword_is_in_the_table_with_its_verdict_and_places(language: str, keyword: Keyword) -> None:
    row = by_name(rows(language, "playbooks.md", "keyword", "关键字"))[keyword.name]
    assert row.verdict == keyword.verdict.value
    words = re.split(r"[,、，] *", row.cells[1])
    assert frozenset().union(*(PLACES[word] for word in words)) == keyword.places
    if keyword.verdict is Verdict.REFUSED and language == "en":
        assert plain(keyword.note) in row.text


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_table_of_keywords_has_no_others(language: str) -> None:
    found = by_name(rows(language, "playbooks.md", "keyword", "关键字"))
    assert set(found) == {keyword.name for keyword in TABLE} | {"with_*"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_loop_control_and_meta(language: str) -> None:
    keys = by_name(rows(language, "playbooks.md", "key", "键"))
    assert {name for name, row in keys.items() if row.verdict == "same"} == set(LOOP_CONTROL)
    orders = by_name(rows(language, "playbooks.md", "order", "命令"))
    assert {name for name, row in orders.items() if row.verdict == "same"} == set(meta.ORDERS)
    for name in [name for name, row in orders.items() if row.verdict == "refused"]:
        with pytest.raises(ValueError, match=f"{name} is not supported"):
            meta.MetaParams(free_form=name)


def module_rows(language: str) -> list[Row]:
    return [row for row in rows(language, "modules.md", "module", "模块") if row.verdict != "refused"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_module_is_in_the_table_and_no_other(language: str) -> None:
    assert {name for row in module_rows(language) for name in row.names} == set(catalog())


@pytest.mark.parametrize("name", sorted(catalog()))
@pytest.mark.parametrize("language", LANGUAGES)
def test_each_parameter_that_a_module_refuses_is_named(language: str, name: str) -> None:
    action = catalog()[name]
    said = " ".join(row.text for row in module_rows(language) if name in row.names)
    common = set(REFUSED) if REFUSED.items() <= action.refused.items() else set()
    for parameter in set(action.refused) - common:
        assert re.search(rf"\b{parameter}\b", said), parameter
    if common:
        shared = next(row for row in module_rows(language) if name in row.names and "seuser" in row.text)
        assert set(REFUSED) <= set(re.findall(r"\w+", shared.text))
    if action.name.startswith("klops."):
        assert keys_of(action.params) <= set(re.findall(r"\w+", said))


def keys_of(model: type[BaseModel]) -> set[str]:
    return {
        info.validation_alias if isinstance(info.validation_alias, str) else name
        for name, info in model.model_fields.items()
    }


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_module_that_is_not_there_has_its_alternative(language: str) -> None:
    found = [row for row in rows(language, "modules.md", "module", "模块") if row.verdict == "refused"]
    missing = {name: instead for name, instead in INSTEAD.items() if name not in catalog()}
    assert set(by_name(found)) == set(missing)
    has_each(language, missing, by_name(found))


def agrees(found: dict[str, Row], there: Collection[str]) -> None:
    assert {name for name, row in found.items() if row.verdict != "refused"} == set(there)


@pytest.mark.parametrize("language", LANGUAGES)
def test_filters_tests_and_lookups(language: str) -> None:
    filters = by_name(rows(language, "templates.md", "filters", "过滤器"))
    agrees(filters, bare(FILTERS))
    has_each(language, REFUSED_FILTERS, filters)
    tests = by_name(rows(language, "templates.md", "tests", "测试"))
    agrees(tests, bare(TESTS))
    has_each(language, REFUSED_TESTS, tests)
    lookups = by_name(rows(language, "templates.md", "lookups", "lookup"))
    agrees(lookups, bare(LOOKUPS))
    refusals = {name: unknown_lookup(name) for name, row in lookups.items() if row.verdict == "refused"}
    assert refusals
    has_each(language, {name: text.partition("isn't there: ")[2] for name, text in refusals.items()}, lookups)


@pytest.mark.parametrize("language", LANGUAGES)
def test_facts(language: str) -> None:
    found = by_name(rows(language, "templates.md", "facts", "fact"))
    there = {name.removeprefix("ansible_") for name in hostfacts.INJECTED}
    single = {name for name in there if re.fullmatch(r"lo|docker0|(eth|ib|bond|br)\d+", name)}
    agrees(found, there - single - {"facts"})


@pytest.mark.parametrize("language", LANGUAGES)
def test_variables_that_klops_gives(language: str) -> None:
    found = by_name(rows(language, "templates.md", "variables", "变量"))
    source = Path(magic.__file__).read_text("utf-8")
    given = set(re.findall(r'"((?:ansible|inventory|play|playbook)_\w+|groups|group_names)"', source))
    assert {"inventory_hostname", "ansible_play_hosts", "playbook_dir"} <= given
    assert given <= {name for name, row in found.items() if row.verdict != "refused"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_variables_of_connections(language: str) -> None:
    found = by_name(rows(language, "settings.md", "variable", "变量"))
    assert list(found) == list(dict.fromkeys(found))
    assert {name for name in found if name.startswith("ansible_")} == set(VARIABLES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_row_that_the_oracle_refers_to_is_there(language: str) -> None:
    pages = ("playbooks.md", "modules.md", "templates.md", "inventory.md")
    known = [row for name in pages for found in tables(language, name).values() for row in found]
    wanted = {difference.row for case in load_cases() for difference in case.differs}
    if language == "en":
        assert not [row for row in wanted if not any(plain(row) in found.text for found in known)]
    assert len(known) == sum(len(found) for name in pages for found in tables("en", name).values())


#: where errors of source, packages and going back are made
RAISING = [
    "klops/source",
    *(f"klops/agent/{name}" for name in ("generations", "packages", "releases")),
    *(f"klops/actions/own/{name}" for name in ("generation", "patch", "rollback", "source", "stack")),
    "klops/actions/own/unasked.py",
    "klops/agent/running.py",
]
#: one that another module turns into the code of what took too long
NEVER_SHOWN = {"timeout"}


def texts_in(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def codes_of(source: Path) -> Iterator[str]:
    """Codes of errors that a file names: the first word of a VerbError, and what is called code."""
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == "VerbError":
                yield from texts_in(node.args[0])
            for keyword in node.keywords:
                if keyword.arg == "code":
                    yield from texts_in(keyword.value)
        elif isinstance(node, ast.FunctionDef) and node.name == "refusal":
            for part in ast.walk(node):
                if isinstance(part, ast.Return) and isinstance(part.value, ast.Tuple):
                    yield from texts_in(part.value.elts[0])


#: codes that say nothing of a host by themselves: their message does, or they are of a task or a command line
ALONE = {
    *("agent", "command-failed", "confirmation-needed", "declined", "error", "internal", "local-file"),
    *("output-limit", "read-only", "source", "task-failed", "timeout", "unknown-service"),
}


def codes_told(text: str) -> set[str]:
    """What stands in the first column of tables."""
    cells = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)
    return {code for cell in cells for code in re.findall("`([^`]+)`", cell)}


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_error_of_a_host_is_told(language: str) -> None:
    own = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    made = {kind.code for kind in own if issubclass(kind, errors.KlopsError)} | {*SEVERITY}
    for folder in ("actions/own", "cli", "remote"):
        for file in sorted((ROOT / "klops" / folder).rglob("*.py")):
            made.update(codes_of(file))
    made -= {"", "code"}
    assert {"host-key", "port-taken", "service-timeout", "container-not-running"} <= made
    assert made >= ALONE
    told = codes_told((DOCS / language / "problems.md").read_text("utf-8"))
    assert made - told - ALONE == set()
    assert told & ALONE == set()


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_error_of_source_packages_and_rollback_is_told(language: str) -> None:
    files = [file for name in RAISING for file in sorted((ROOT / name).rglob("*.py")) or [ROOT / name]]
    made = {code for file in files for code in codes_of(file)} - NEVER_SHOWN - {"", "code"}
    assert {"dirty-tree", "dubious-ownership", "import-elsewhere", "patch-foreign", "rolled-back"} <= made
    text = (DOCS / language / "problems.md").read_text("utf-8")
    heading = {
        "en": "## Error codes of source, packages and rollback",
        "zh": "## 源码、软件包和回退的错误代码",
    }
    before, _, after = text.partition(f"{heading[language]}\n")
    section = after.partition("\n## ")[0]
    told, known = codes_told(section), codes_told(before)
    # some are told with those of containers and cards
    assert made - told - known == set()
    written = {text for file in files for text in texts_in(ast.parse(file.read_text("utf-8")))}
    assert told - written == set()
