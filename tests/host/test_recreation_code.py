"""A container made anew, whose service needs packages, source and patches that its image hasn't got."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from klops.sim.layout import SERVICE
from tests.host import sources
from tests.host.sources import PACKAGE, Ground, package
from tests.rehearsals import MakeRehearsal
from tests.unit.agent.packages import wheels

pytestmark = [pytest.mark.host, pytest.mark.timeout(400)]

OPS, OLD, NEW = "kunlun_ops", "3.0.0", "3.1.0"
SLOW = "def load():\n    return 'slow'\n"
#: What the source does as it is imported: nothing of the image alone is enough for it.
NEEDS = f"from {OPS}.loader import load\nif load() == 'slow':\n    raise ImportError('not patched')\n"
RAISES = "raise ImportError('undefined symbol: xpu_free')\n"


@pytest.fixture(
    scope="module",
    params=[pytest.param(True, id="layer"), pytest.param(False, id="volume", marks=pytest.mark.long)],
)
def ground(
    request: pytest.FixtureRequest, make_rehearsal: MakeRehearsal, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    """A host whose service is ready with all three; its Python is in a layer of the image, or in a volume."""
    folder = tmp_path_factory.mktemp("source")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "INSTALLED", {f"{PACKAGE}/__init__.py": "raise ImportError('the image')\n"})
        with sources.ground(make_rehearsal, folder, service=True, layer=request.param) as made:
            for version in (OLD, NEW):
                files = {f"{OPS}/__init__.py": f"VERSION = {version!r}\n", f"{OPS}/loader.py": SLOW}
                wheels.wheel(folder / "wheels", OPS, version, files)
            volumes = [*sources._volumes(made), f"{folder}/wheels:/wheels:ro"]
            patched(made, "fast")
            made.settings(
                {
                    "container": {"volumes": volumes, "env": {"ADDED": "1"}},
                    "source": {"targets": [{"package": PACKAGE}]},
                    "stack": {
                        "wheel_dir": "/wheels",
                        "packages": {OPS: OLD},
                        "patches": [{"file": f"{OPS}/loader.py", "diff": str(folder / "loader.diff")}],
                    },
                }
            )
            made.repo.commit(package("1", more=NEEDS))
            made.object("up")
            yield made


def patched(ground: Ground, word: str) -> None:
    """Have the patch make another word of it."""
    before, after = (text.splitlines(keepends=True) for text in (SLOW, SLOW.replace("slow", word)))
    text = "".join(difflib.unified_diff(before, after, f"a/{OPS}/loader.py", f"b/{OPS}/loader.py"))
    (ground.folder / "loader.diff").write_text(text)


def identity(ground: Ground) -> str:
    """Id of the container."""
    assert ground.rehearsal.engine is not None
    return ground.rehearsal.engine.docker("inspect", "--format", "{{.Id}}", ground.host.container)


def runs_on(ground: Ground) -> tuple[str, str, str]:
    """Version of the packages and of the source in the container, and what the patched file says."""
    code = f"import {OPS}, {PACKAGE}; from {OPS} import loader; "
    code += f"print({OPS}.VERSION, {PACKAGE}.VERSION, loader.load())"
    ops, source, word = ground.python(code).split()
    return ops, source, word


def left(ground: Ground) -> list[str]:
    """What a recreation leaves on the host as long as it isn't over."""
    return [name for name in ("recreation.json", "kept.json") if (ground.host.root / name).exists()]


# One story, in this order.


def test_the_new_one_proves_itself_with_all_that_its_services_need(ground: Ground) -> None:
    before = identity(ground)
    ground.settings({"container": {"env": {"ADDED": "2"}}})
    done = ground.run("up", "--recreate")
    assert identity(ground) != before
    assert (runs_on(ground), ground.answers(), left(ground)) == ((OLD, "1", "fast"), True, [])
    assert changed(done.json) == ["klops.container"], (
        "the tasks after it find all in place, and nothing restarts"
    )
    assert ground.run("up").json["recap"][ground.host.name]["changed"] == 0


def changed(said: dict[str, Any]) -> list[str]:
    """Actions that have changed something."""
    (name,) = said["recap"]
    tasks = said["plays"][0]["tasks"]
    return [task["action"] for task in tasks if task["hosts"][name]["status"] == "changed"]


@pytest.mark.long
def test_where_it_does_not_serve_the_old_one_has_what_it_had(ground: Ground) -> None:
    before, current = identity(ground), ground.current.name
    listed = ground.object("releases")
    ground.settings({"container": {"env": {"ADDED": "3"}}, "stack": {"packages": {OPS: NEW}}})
    patched(ground, "faster")
    ground.repo.commit(package("2", more=RAISES))
    error = ground.fails("up", "--recreate")
    assert error["code"] == "recreate-failed"
    assert f"is back, and serves: {SERVICE}" in error["message"]
    assert (identity(ground), ground.current.name) == (before, current)
    assert (runs_on(ground), ground.answers(), left(ground)) == ((OLD, "1", "fast"), True, [])
    now = ground.object("releases")
    assert [now[key] for key in ("current", "generation")] == [
        listed[key] for key in ("current", "generation")
    ]
    assert now["generations"] == listed["generations"]


@pytest.mark.long
def test_what_failed_in_the_new_one_is_in_nobodys_way_in_the_old_one(ground: Ground) -> None:
    ground.repo.commit(package("3", more=NEEDS))
    before = identity(ground)
    ground.object("up")
    assert identity(ground) == before
    assert (runs_on(ground), ground.answers()) == ((NEW, "3", "faster"), True)
    ground.object("rollback")
    assert (runs_on(ground), ground.answers()) == ((OLD, "1", "fast"), True)


@pytest.mark.long
def test_it_has_so_too_where_no_service_is_to_run(ground: Ground) -> None:
    ground.object("down")
    before, current = identity(ground), ground.current.name
    listed = ground.object("releases")
    changes = {"container": {"env": {"ADDED": "4"}}, "stack": {"packages": {OPS: NEW}}}
    ground.settings({**changes, "generations": {"rollback": "never"}})
    ground.repo.commit(package("4"))
    (ground.folder / "loader.diff").write_text("--- a\n+++ b\n@@ -1 +1 @@\n-not there\n+x\n")
    assert ground.fails("up", "--recreate")["code"] == "recreate-failed"
    assert (identity(ground), ground.current.name, left(ground)) == (before, current, [])
    assert runs_on(ground) == (OLD, "1", "fast")
    assert ground.object("releases")["generations"] == listed["generations"]
    patched(ground, "fast")
    ground.object("up")
    assert (runs_on(ground), ground.answers()) == ((NEW, "4", "fast"), True)


@pytest.mark.long
def test_a_source_that_cannot_be_read_is_told_before_anything_is_touched(ground: Ground) -> None:
    before = identity(ground)
    ground.settings({"source": {"ref": "no-such-ref"}})
    error = ground.fails("up", "--recreate")
    assert "no-such-ref" in json.dumps(error)
    assert (identity(ground), ground.answers(), left(ground)) == (before, True, [])
