"""The same inventories read by Ansible and by klops.

What stands in ``data/*.list.json`` and ``data/*.graph.txt`` was printed by ``ansible-inventory --list`` and
``--graph`` of ansible-core 2.19; it is compared without Ansible. Where ansible-core is installed, the same is
asked again, and ``KLOPS_RECORD=1`` writes down what it says.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from klops.errors import UsageError
from klops.inventory import load
from klops.inventory.listing import as_graph, as_list
from klops.inventory.masking import as_json
from klops.secret import MASK
from tests.unit.inventory.ansible_runs import Run, interpreter, run_all

DATA = Path(__file__).parent / "data"
CASES = {
    "anchors": ["types/anchors.yml"],
    "basic": ["basic.yml"],
    "beside": ["beside/hosts.yml"],
    "blanks": ["ini/blanks.ini"],
    "deep": ["types/deep.yml"],
    "each": ["program/each.sh"],
    "folder": ["folder"],
    "hostlist": ["h1, h2:2222,web.example.org,h1"],
    "ini": ["ini/basic.ini"],
    "ini_named": ["types/ini_named.yml"],
    "ini_order": ["ini/order.ini"],
    "ini_priority": ["ini/priority"],
    "ini_ranges": ["ini/ranges.ini"],
    "ini_types": ["ini/types.ini"],
    "ini_unicode": ["ini/unicode.ini"],
    "json": ["types/hosts.json"],
    "local": ["local/hosts.ini"],
    "marked": ["program/marked"],
    "mixed": ["mixed"],
    "noext": ["types/noext"],
    "over": ["over/a", "over/b/hosts.yml", "h3,h9,"],
    "plainlist": ["types/plainlist"],
    "priority": ["priority.yml"],
    "program": ["program/meta.sh"],
    "ranges": ["ranges.yml"],
    "replace": ["replace.yml"],
    "two": ["first/hosts.yml", "second/hosts.yml"],
    "ungrouped": ["ungrouped.yml"],
    "yaml_types": ["types/yaml.yml"],
}
#: One with variables beside a playbook, too.
BESIDE = (["over/a", "over/b/hosts.yml"], "plays")
PROGRAMS = ("each", "mixed", "program")

#: Patterns in one inventory: some of each kind, with what is only warned of or refused.
FLEET = "patterns.ini"
PATTERNS = """
all * ungrouped web db web:db web,db web:&prod prod:&web web:!web1 all:!web:!db !web &prod
all:!web* web[0] web[-1] web[0:1] web[1:] web[0:0] web[2] db[-2] web*[0:2] web*[3] w*[0] *[1:3]
web1 web1,db1 web1:web1 db1,web1 ~web[12] ~(web|db)\\d ~.*example\\.org$ ~^db *.example.org web?
web[!1] web[12] a.b.example.org prod:stage:&web,!web2 web,&prod,!web2 stage:prod same same:!web1
&same:all all:!same localhost 127.0.0.1 ::1 localhost:web1 localhost:&all !localhost all:localhost
2001:db8::1 2001:db8::1,web1 nobody no* web:nobody web[9] prod[5:9] web:!all group.dot !group.dot both
both:&prod [12]*
""".split()  # noqa: SIM905 - a pattern has no blanks
ADDED = {
    #: Ansible takes the colons for parts of a name when there is a comma, too
    "prod:stage:&web,!web2": ["web1"],
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the inventories that may be written to; its programs are executable."""
    copy = tmp_path_factory.mktemp("inventories") / "data"
    shutil.copytree(DATA, copy)
    for program in (*copy.glob("program/*"), *copy.glob("mixed/*.sh")):
        program.chmod(0o755)
    return copy


def sources(paths: Sequence[str]) -> list[str]:
    return [word for path in paths for word in ("-i", path)]


def listed(case: str) -> Any:
    """What klops lists, as JSON has it."""
    return json.loads(json.dumps(as_list(load(CASES[case])), default=as_json))


def drawn(case: str, *, variables: bool = False) -> str:
    return "\n".join(as_graph(load(CASES[case]), variables=variables)) + "\n"


def without_variables(graph: str) -> str:
    """The tree of groups and hosts alone; a variable's value may have several lines."""
    return re.sub(r"^(?:  \|)+--\{.*?\}\n(?=(?:  \|)*(?:--|@)|\Z)", "", graph, flags=re.DOTALL | re.MULTILINE)


def assignments(graph: str) -> list[str]:
    """The lines of a tree, dictionaries in them with sorted keys: theirs have the order of a merge."""
    found: list[str] = []
    for line in graph.splitlines():
        start, equals, value = line.partition(" = ")
        try:
            read = ast.literal_eval(value.removesuffix("}"))
        except (ValueError, SyntaxError):
            found.append(line)
        else:
            found.append(start + equals + str(ordered(read)))
    return found


def ordered(value: Any) -> Any:
    """A value with its dictionaries as sorted lists."""
    if isinstance(value, dict):
        return sorted((str(key), ordered(item)) for key, item in value.items())
    return [ordered(item) for item in value] if isinstance(value, list) else value


def without_secrets(value: Any, shown: Any) -> Any:
    """``value`` with a mask wherever ``shown`` has one, without Ansible's marks of plain text."""
    if shown == MASK:
        return MASK
    if isinstance(value, dict) and set(value) == {"__ansible_unsafe"}:
        return value["__ansible_unsafe"]
    if isinstance(value, dict) and isinstance(shown, dict):
        return {key: without_secrets(item, shown.get(key)) for key, item in value.items()}
    if isinstance(value, list) and isinstance(shown, list) and len(value) == len(shown):
        return [without_secrets(item, other) for item, other in zip(value, shown, strict=True)]
    return value


def needs_programs(case: str) -> None:
    if os.name == "nt" and case in PROGRAMS:
        pytest.skip("executable inventories are not supported on Windows")


@pytest.mark.parametrize("case", CASES)
def test_list_equals_what_ansible_listed(case: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_programs(case)
    monkeypatch.chdir(data)
    recorded = json.loads((DATA / f"{case}.list.json").read_text(encoding="utf-8"))
    shown = listed(case)
    assert shown == without_secrets(recorded, shown)


@pytest.mark.parametrize("case", CASES)
def test_graph_equals_what_ansible_drew(case: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_programs(case)
    monkeypatch.chdir(data)
    assert drawn(case) == (DATA / f"{case}.graph.txt").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def ansible(data: Path) -> list[Run]:
    """What Ansible says to all questions below, in their order."""
    python = interpreter()
    if python is None:
        pytest.skip("ansible-core is not installed: compared with what it said when that was recorded only")
    questions: list[list[str]] = []
    for case in CASES:
        questions.append(["ansible-inventory", *sources(CASES[case]), "--list"])
        questions.append(["ansible-inventory", *sources(CASES[case]), "--graph", "--vars"])
    questions.extend(["ansible", "-i", FLEET, pattern, "--list-hosts"] for pattern in PATTERNS)
    questions.append(["ansible-inventory", *sources(BESIDE[0]), "--playbook-dir", BESIDE[1], "--list"])
    return run_all(python, questions, data)


def test_ansible_says_the_same_today(
    ansible: list[Run], data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(data)
    different: dict[str, str] = {}
    for number, case in enumerate(CASES):
        as_listed, as_drawn = ansible[2 * number : 2 * number + 2]
        if os.environ.get("KLOPS_RECORD"):
            (DATA / f"{case}.list.json").write_text(as_listed.out, encoding="utf-8")
            (DATA / f"{case}.graph.txt").write_text(without_variables(as_drawn.out), encoding="utf-8")
        theirs, ours = json.loads(as_listed.out), listed(case)
        if ours != without_secrets(theirs, ours):
            different[case] = f"{theirs}\n{ours}"
        elif drawn(case) != without_variables(as_drawn.out):
            different[case] = f"{as_drawn.out}\n{drawn(case)}"
        elif MASK not in str(ours) and assignments(drawn(case, variables=True)) != assignments(as_drawn.out):
            different[case] = f"{as_drawn.out}\n{drawn(case, variables=True)}"
    with capsys.disabled():
        print(f"\n{len(CASES) - len(different)} of {len(CASES)} inventories equal ansible-inventory --list")
    assert not different, "\n\n".join(f"{case}:\n{text}" for case, text in different.items())


def test_variables_beside_a_playbook_win_where_ansible_says(
    ansible: list[Run], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    inventory = load(BESIDE[0]).beside(Path(BESIDE[1]))
    assert as_list(inventory) == json.loads(ansible[-1].out)


def hosts_of(run: Run) -> list[str]:
    """The hosts that ``ansible --list-hosts`` prints under a line with their number."""
    return [line.strip() for line in run.out.splitlines() if not line.strip().startswith("hosts (")]


def test_patterns_name_the_same_hosts(
    ansible: list[Run], data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(data)
    inventory = load([FLEET])
    same: list[str] = []
    stricter: list[str] = []
    different: dict[str, tuple[list[str], list[str]]] = {}
    for pattern, run in zip(PATTERNS, ansible[2 * len(CASES) : -1], strict=True):
        theirs = hosts_of(run)
        warned = "Could not match" in run.err or run.status or not theirs
        try:
            ours = inventory.select([pattern])
        except UsageError:
            # klops refuses what Ansible warns of: an unknown name, an empty outcome
            (stricter if warned else same).append(pattern)
            if not warned:
                different[pattern] = (theirs, [])
            continue
        if ours == theirs or ours == ADDED.get(pattern):
            same.append(pattern)
        else:
            different[pattern] = (theirs, ours)
    with capsys.disabled():
        print(f"\n{len(same)} patterns name Ansible's hosts, {len(stricter)} are refused where it warns")
    assert not different
    assert len(same) >= 40
