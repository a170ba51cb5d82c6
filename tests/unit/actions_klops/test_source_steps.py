"""Steps of ``klops.source``: what the agent is asked, what is sent, and what comes of its answers."""

from __future__ import annotations

import json
import subprocess
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from klops.actions.base import Plan, Seen
from klops.actions.own.hostreads import RELEASES
from klops.actions.own.source.action import SourceAction, SourceParams
from klops.actions.own.source.listing import amount, differing, lines, shown
from klops.actions.own.source.looking import TREE, TreeLook
from klops.actions.own.source.recipe import carried, wanted_name
from klops.actions.own.source.sending import SendTree
from klops.actions.own.source.steps import ActivateRelease, BuildRelease
from klops.actions.own.telling import CHANGES, carried_out
from klops.errors import AgentError, LockHeld, TaskFailed
from klops.inventory.settings import Settings, Source
from klops.remote.base import Reply
from klops.remote.fake import Call, FakeRemote
from klops.source.tree import Tree
from klops.testing import reply, seen
from tests.cases.harness import HERE, Case
from tests.trees import WrittenTree, entries_of, written

from .generationsworld import World, standing
from .support import SETTINGS, Stage

FILES = {"a.py": "A = 1\n", "b.py": "B = 22\n", "c.py": "A = 1\n", "d/e.py": "E = 333\n"}
TARGETS: list[dict[str, Any]] = [
    {"root": "/opt/vk"},
    {"package": "vk", "path": "src/vk", "place": "pythonpath"},
    {"package": "vk.ops", "carry": ["*.so"]},
]


def settings(**source: Any) -> Settings:
    return Settings.model_validate({**SETTINGS, "source": {"repo": "/repo", **source}})


def stage(**source: Any) -> Stage:
    return Stage(settings=settings(**source))


def object_of(answer: Mapping[str, Any], rc: int = 0) -> Any:
    return reply(json.dumps(answer) + "\n", rc=rc)


def refusal(code: str, message: str) -> Any:
    return object_of({"error": {"code": code, "message": message, "hint": "do that"}}, 1)


def told(remote: FakeRemote, verb: str) -> list[Call]:
    return [call for call in remote.log if f" {verb} " in call.text and call.kind != "read"]


def done(tree: Tree, *, whole: bool = False, activated: Any = None, generation: int | None = None) -> str:
    """What the agent says at last of a tree that was sent."""
    said = {
        "name": tree.release.name,
        "whole": whole,
        "files": 2,
        "bytes": 15,
        "linked": 1,
        "notes": ["left"],
    }
    return json.dumps({"done": {**said, "activated": activated, "generation": generation}}) + "\n"


def lacking(there: Stage, *indexes: int, then: str) -> FakeRemote:
    """A host that lacks these entries of the tree, and then says what is given once these have come."""
    first = json.dumps({"lacking": indexes, "bytes": 22}) + "\n"

    def agent(call: Call) -> str:
        return first + (then if not indexes or split(call)[2] else "")

    there.remote.on(" send ", agent)
    return there.remote


def split(call: Call) -> tuple[Any, bytes, bytes]:
    """What is asked, the manifest, and the stream of contents, as the agent is given them."""
    line, _, rest = call.stdin.partition(b"\n")
    asked = json.loads(line)
    return asked, rest[: asked["manifest"]], rest[asked["manifest"] :]


def test_nothing_is_asked_for_before_the_host_is_ours() -> None:
    there = stage()
    tree = written(FILES)

    def refused() -> None:
        raise LockHeld("somebody has it")

    step = SendTree(there.settings, tree)
    assert step.awaits_lock
    with pytest.raises(LockHeld):
        step.carry_out(replace(there.ctx, locked=refused))
    assert there.remote.log == []


def test_only_what_is_lacking_is_read_and_sent() -> None:
    there = stage()
    old = entries_of({"z.py": "Z = 1\n"})
    tree = written(FILES, normalised=["b.py"])
    remote = lacking(there, 1, 3, then='{"got": 11, "files": 1}\n' + done(tree))
    result = SendTree(there.settings, tree, tuple(old)).carry_out(there.ctx)
    # what is there was read before
    assert [call.kind for call in remote.log].count("read") == 0
    (call,) = told(remote, "send")
    asked, manifest, stream = split(call)
    assert (asked["activate"], manifest) == (None, tree.release.dumps())
    assert call.argv[-4:] == ("send", "--while-stdin", "--root", "/k")
    assert call.keep_stdin
    assert zlib.decompress(stream, 31) == b"B = 22\nE = 333\n"
    assert tree.asked == ["b.py", "d/e.py"]
    (change,) = result[CHANGES]
    assert change.what == (
        f"send 2 files, 15 bytes, of release {tree.release.name} (4 files, line endings made LF in 1)"
    )
    assert (result["sent_files"], result["sent_bytes"]) == (2, 15)
    assert change.before == lines(old)
    assert str(change.after).endswith("line endings made LF: b.py\n")
    assert there.progress[0].message == "sending 2 files, 22 bytes"
    assert (there.progress[1].message[:21], there.progress[1].percent) == ("11 bytes of 22 bytes,", 50.0)


def test_a_release_that_is_there_whole_is_no_change() -> None:
    there, tree = stage(), written(FILES)
    lacking(there, then=done(tree, whole=True))
    result = SendTree(there.settings, tree).carry_out(there.ctx)
    assert result == {"sent_files": 0, "sent_bytes": 0, CHANGES: ()}
    assert (tree.asked, there.warnings) == ([], ["left"])


def test_what_is_all_there_under_other_names_is_laid_down_with_nothing_sent() -> None:
    there, tree = stage(), written(FILES)
    remote = lacking(there, then=done(tree))
    result = SendTree(there.settings, tree).carry_out(there.ctx)
    assert split(told(remote, "send")[0])[2] == b""
    (change,) = result[CHANGES]
    assert change.what == f"lay down release {tree.release.name} of what is there (4 files)"
    # nobody asked for a diff
    assert (change.before, change.after) == (None, None)


def test_it_becomes_the_current_one_in_the_same_command() -> None:
    there, tree = stage(targets=TARGETS, keep=2), written(FILES)
    name = tree.release.name
    remote = lacking(there, 0, then=json.dumps({"laid": name}) + "\n" + done(tree, activated=ACTIVATED))
    step = SendTree(there.settings, tree, None, ActivateRelease(there.settings, name, "old", "why"))
    assert [change.what for change in step.changed()] == [
        f"lay down release {name} (4 files)",
        f"current release: old -> {name}",
    ]
    result = step.carry_out(there.ctx)
    (call,) = remote.log
    assert split(call)[0]["activate"] == {**REQUEST, "name": name}
    assert [change.what for change in result[CHANGES]] == [
        f"send 1 file, 6 bytes, of release {name} (4 files)",
        f"current release: old -> {name}",
        "/site/vk -> it",
        "remove old release oldest",
    ]
    assert (result["current"], result["imports"]) == (name, ACTIVATED["imports"])
    assert there.warnings == ["left", "a note"]


@pytest.mark.parametrize("number", [3, None])
def test_what_serves_at_once_is_noted_in_the_same_command(number: int | None) -> None:
    there, tree = stage(), written(FILES)
    name = tree.release.name
    remote = lacking(there, then=done(tree, activated=ACTIVATED, generation=number))
    activate = ActivateRelease(there.settings, name, "old", "why")
    result = SendTree(there.settings, tree, None, activate, noted=True).carry_out(there.ctx)
    note = split(remote.log[0])[0]["note"]
    assert (note["health"], note["run"], note["keep"]) == ("good", there.view.run, 10)
    assert result.get("generation") == number
    SendTree(there.settings, tree, None, activate).carry_out(there.ctx)
    assert split(remote.log[1])[0]["note"] is None


@pytest.mark.parametrize(("services", "noted"), [(True, True), (False, True), (False, False)])
def test_what_services_are_to_run_on_is_noted_once_they_do(*, services: bool, noted: bool) -> None:
    world, tree = World(now=standing(None, units={})), written(FILES)
    more = {"source": Source(repo="/repo"), **({} if services else {"services": {}})}
    view = replace(world.view(), settings=world.settings.model_copy(update=more))
    known = Reply(0, b'{"current": null, "releases": []}')
    given = Seen({**world.replies(), RELEASES: known}, local={TREE: tree})
    (step,) = SourceAction().plan(SourceParams(noted=noted), view, given).steps
    assert isinstance(step, SendTree)
    assert step.noted is (noted and not services)


def test_what_was_laid_down_is_told_when_it_does_not_become_the_current_one() -> None:
    there, tree = stage(), written(FILES)
    error = {"error": {"code": "import-elsewhere", "message": "vk is imported from /a", "hint": "do that"}}
    lines_ = "".join(json.dumps(one) + "\n" for one in ({"laid": tree.release.name}, error))
    lacking(there, 0, then=lines_)
    ctx = there.ctx
    step = SendTree(
        there.settings, tree, None, ActivateRelease(there.settings, tree.release.name, "old", "why")
    )
    with pytest.raises(AgentError, match="was not put in place: vk is imported from /a") as caught:
        step.carry_out(ctx)
    assert (caught.value.code, caught.value.hint) == ("import-elsewhere", "do that")
    assert [change.what for change in ctx.done] == [
        f"send 1 file, 6 bytes, of release {tree.release.name} (4 files)"
    ]


@pytest.mark.parametrize(("check", "diff"), [(False, False), (True, False), (False, True)])
def test_what_the_current_release_consists_of_is_read_for_those_who_see_it(check: bool, diff: bool) -> None:
    view = replace(stage().view, check=check, diff=diff)
    (script,) = (
        one.script for one in SourceAction().probe(SourceParams(), view).reads if one.key == RELEASES
    )
    assert ("--entries" in script) is (check or diff)


@pytest.mark.parametrize("first", ["", '{"lacking": [0], "bytes": 6}\n'])
def test_the_agents_own_words_are_passed_on(first: str) -> None:
    there, tree = stage(), written(FILES)
    error = json.dumps({"error": {"code": "disk-full", "message": "the disk is full", "hint": ""}}) + "\n"
    there.remote.on(" send ", reply(first + error, rc=1))
    ctx = there.ctx
    with pytest.raises(AgentError, match="was not laid down: the disk is full") as caught:
        SendTree(there.settings, tree).carry_out(ctx)
    assert (caught.value.code, tree.release.name in caught.value.message) == ("disk-full", True)
    assert (ctx.done, tree.asked) == ([], ["a.py"] if first else [])


def test_an_agent_that_dies_is_told_by_its_last_words() -> None:
    there, tree = stage(), written(FILES)
    there.remote.on(" send ", reply("", rc=137, stderr="noise\nKilled\n"))
    with pytest.raises(AgentError, match="was not laid down: Killed"):
        SendTree(there.settings, tree).carry_out(there.ctx)


def test_an_agent_that_dies_with_its_container_has_no_last_words() -> None:
    there, tree = stage(), written(FILES)
    there.remote.on(" send ", reply('{"lacking": [0], "bytes": 6}\n', rc=137))
    with pytest.raises(
        AgentError, match=r"killed \(status 137\), as when the container is stopped"
    ) as caught:
        SendTree(there.settings, tree).carry_out(there.ctx)
    assert "repeat it" in caught.value.hint


def test_a_file_that_changes_while_it_is_sent_ends_it() -> None:
    class Changing(WrittenTree):
        def contents(self, paths: Any) -> Any:
            raise TaskFailed("a.py changed", code="source-changed")

    there, tree = stage(), written(FILES)
    lacking(there, 0, then="")
    with pytest.raises(TaskFailed, match=r"a\.py changed"):
        SendTree(there.settings, Changing(**vars(tree))).carry_out(there.ctx)


def test_a_build_is_asked_for_with_all_that_it_needs() -> None:
    build = {"commands": ["make"], "timeout": 60, "env": {"CC": "gcc"}, "installs": ["vk"]}
    there = stage(build=build, targets=TARGETS)
    lines_ = '{"line": "$ make"}\n{"done": {"name": "n-b1", "seconds": 2.0, "log": "/l", "cached": false}}\n'
    there.remote.on(" build ", lines_)
    step = BuildRelease(there.settings, "n", "n-b1")
    assert step.carry_out(there.ctx) == {CHANGES: (step.change(),)}
    (call,) = there.remote.log
    assert call.argv[-5:] == ("build", "n", "--while-stdin", "--root", "/k")
    assert json.loads(call.stdin) == {
        "name": "n-b1",
        **build,
        "carry": [{"package": "vk.ops", "path": "vk/ops", "globs": ["*.so"]}],
    }
    assert [one.message for one in there.progress] == ["$ make"]
    there.remote.on(" build ", '{"done": {"name": "n-b1", "cached": true}}\n')
    assert step.carry_out(there.ctx) == {CHANGES: ()}


def test_a_failing_build_says_what_the_commands_said() -> None:
    there = stage(build={"commands": ["make"]})
    there.remote.on(" build ", refusal("build-failed", "make: x"))
    with pytest.raises(AgentError, match=r"^make: x$") as caught:
        BuildRelease(there.settings, "n", "n-b1").carry_out(there.ctx)
    assert caught.value.code == "build-failed"


def test_what_a_failing_build_said_is_shortened() -> None:
    there = stage(build={"commands": ["make"]})
    there.remote.on(" build ", refusal("build-failed", f"make: x\n{'ab' * 3000}\nlast"))
    with pytest.raises(AgentError) as caught:
        BuildRelease(there.settings, "n", "n-b1").carry_out(there.ctx)
    first, long, last = caught.value.message.split("\n")
    assert (first, long[-6:], last) == ("make: x", "ab ...", "last")
    assert len(long) < 600


def test_a_build_that_ends_its_agent_leaves_a_log() -> None:
    there = stage(build={"commands": ["kill -9 $PPID"]})
    there.remote.on(" build ", reply("", rc=137))
    with pytest.raises(AgentError, match="memory runs out") as caught:
        BuildRelease(there.settings, "n", "n-b1").carry_out(there.ctx)
    assert "/k/log/build-n-b1.log" in caught.value.hint


REQUEST = {
    "targets": [
        {"root": "/opt/vk"},
        {"package": "vk", "path": "src/vk", "place": "pythonpath"},
        {"package": "vk.ops", "path": "vk/ops", "place": "site-packages"},
    ],
    "paths": ["src"],
    "keep": 2,
}
ACTIVATED = {
    "before": "old",
    "changed": ["current: old -> n", "/site/vk -> it"],
    "imports": [{"package": "vk", "file": "/f", "ok": True, "why": ""}],
    "pruned": ["oldest"],
    "notes": ["a note"],
}


def test_what_an_activation_is_asked_for() -> None:
    there = stage(targets=TARGETS, keep=2)
    there.remote.on(" activate ", object_of(ACTIVATED))
    result = ActivateRelease(there.settings, "n", "old", "why").carry_out(there.ctx)
    (call,) = there.remote.log
    assert json.loads(call.stdin) == {"name": "n", **REQUEST}
    assert [change.what for change in result[CHANGES]] == [
        "current release: old -> n",
        "/site/vk -> it",
        "remove old release oldest",
    ]
    assert result["imports"] == ACTIVATED["imports"]
    assert there.warnings == ["a note"]


def test_a_release_that_is_not_imported_fails_with_both_files() -> None:
    there = stage()
    there.remote.on(" activate ", refusal("import-elsewhere", "vk is imported from /a, not from /b"))
    with pytest.raises(AgentError, match="vk is imported from /a, not from /b") as caught:
        ActivateRelease(there.settings, "n", None, "").carry_out(there.ctx)
    assert (caught.value.code, caught.value.hint) == ("import-elsewhere", "do that")


def test_what_was_mended_is_told_and_no_switch() -> None:
    there = stage()
    said = {**ACTIVATED, "before": "n", "changed": ["/site/vk -> it"], "pruned": [], "notes": []}
    there.remote.on(" activate ", object_of(said))
    plan = Plan(steps=(ActivateRelease(there.settings, "n", "n", "not in place: /site/vk"),))
    ctx = there.ctx
    _, changed = carried_out(plan, ctx)
    assert ([change.what for change in ctx.done], changed) == (["/site/vk -> it"], True)


def test_a_dry_run_lists_the_files_of_a_release_that_is_there_and_does_not_run() -> None:
    case = Case.load(HERE / "klops.source" / "back_check.yml")
    old = [["z.py", "file", 420, 6, "0" * 64]]
    replies = {**case.given["replies"]}
    replies["releases"] = json.dumps({**json.loads(replies["releases"]), "entries": old})
    (step,) = case.plan(SourceAction(), replies).steps
    change = step.change()
    assert change.before == f"0644 {'0' * 12} z.py\n"
    assert [line.split()[-1] for line in str(change.after).splitlines()] == ["a.py", "b.py"]


def test_what_decides_about_a_build_is_in_its_name() -> None:
    build = {"commands": ["make"], "env": {"A": "1"}, "installs": ["vk"]}
    base = settings(build=build)
    names = {
        wanted_name(base, "n", "sha256:1"),
        wanted_name(base, "n", "sha256:2"),
        wanted_name(settings(build={**build, "commands": ["make all"]}), "n", "sha256:1"),
        wanted_name(settings(build={**build, "env": {"A": "2"}}), "n", "sha256:1"),
        wanted_name(settings(build={**build, "installs": []}), "n", "sha256:1"),
        wanted_name(settings(build=build, targets=TARGETS), "n", "sha256:1"),
        wanted_name(
            Settings.model_validate(
                {"source": {"repo": "/r", "build": build}, "stack": {"packages": {"torch": "2.5"}}}
            ),
            "n",
            "sha256:1",
        ),
    }
    assert len(names) == 7
    # neither how long it may take nor how many are kept
    assert wanted_name(settings(build={**build, "timeout": 5}, keep=9), "n", "sha256:1") in names
    assert wanted_name(settings(), "n", "sha256:1") == "n"
    assert carried(settings(targets=TARGETS)) == [{"package": "vk.ops", "path": "vk/ops", "globs": ["*.so"]}]


def test_what_has_to_travel_is_counted_by_content() -> None:
    entries = entries_of(FILES)
    assert [entry.path for entry in differing(entries, ())] == ["a.py", "b.py", "d/e.py"]
    assert [entry.path for entry in differing(entries, entries_of({"x": "E = 333\n"}))] == ["a.py", "b.py"]


def test_paths_of_any_bytes_are_one_line() -> None:
    path = b"a\n\xff\xe4".decode("utf-8", "surrogateescape") + "日本"
    assert shown(path) == "a\\n\\xff\\xe4日本"
    assert lines(entries_of({"a b": ""})) == "0644 e3b0c44298fc a b\n"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (2**31, "2.0 GiB")]
)
def test_amounts(size: int, text: str) -> None:
    assert amount(size) == text


def test_the_tree_is_looked_at_by_the_ref_of_the_task(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *words], check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / "a.py").write_bytes(b"A = 1\r\n")
    git("add", "-A")
    git("commit", "-qm", "one")
    git("tag", "first")
    there = stage(repo=str(tmp_path), ref="nowhere")
    there.remote.on(lambda call: call.kind == "read", reply(rc=44))
    probe = SourceAction().probe(SourceParams(ref="first"), there.view)
    tree = seen(probe, there.remote).local["tree"]
    assert isinstance(tree, Tree)
    assert [entry.path for entry in tree.release.entries] == ["a.py"]
    assert tree.report.normalised == ("a.py",)
    with pytest.raises(TaskFailed) as caught:
        seen(SourceAction().probe(SourceParams(), there.view), there.remote)
    assert caught.value.code == "no-such-ref"


def test_equal_requests_are_one_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    given: list[tuple[str, dict[str, Any]]] = [
        ("r", {}),
        (str(tmp_path / "r"), {}),
        ("r", {"ref": "HEAD", "dirty": False}),
    ]
    looks = {
        SourceAction().probe(SourceParams(**params), stage(repo=repo).view).local["tree"]
        for repo, params in given
    }
    assert looks == {TreeLook(tmp_path / "r", "HEAD", dirty=False)}
