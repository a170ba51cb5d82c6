"""Patches of files of site-packages: applied once, taken back exactly, refused where somebody else was."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.unit.agent.packages.world import World, patch_request, sha256
from tests.waiting import until

FILE = "alpha/core.py"
OLD = "V = 1\n\n\ndef f():\n    return V\n"
NEW = "V = 2\n\n\ndef f():\n    return V\n"
DIFF = "--- a/alpha/core.py\n+++ b/alpha/core.py\n@@ -1,3 +1,3 @@\n-V = 1\n+V = 2\n \n \n"


@pytest.fixture
def alpha(world: World) -> World:
    world.put("alpha", "1.0", {"alpha/__init__.py": "", FILE: OLD})
    return world


def forms(world: World) -> tuple[str, str]:
    """What is known of the file: pristine and patched."""
    known = world.packages([], [FILE])["patches"][0]["known"]
    return known["pristine"], known["patched"]


@pytest.mark.parametrize(("kind", "data"), [("copy", NEW), ("diff", DIFF)])
def test_applied_twice_and_taken_back_twice(alpha: World, kind: str, data: str) -> None:
    (alpha.site / FILE).chmod(0o640)
    before = alpha.tree()
    assert alpha.imported("alpha.core.f()", "alpha.core") == "1"  # and its compiled form is there
    first = alpha.patch(FILE, data, kind)
    assert first.done["changed"]
    assert (first.done["before"], first.done["after"]) == (sha256(OLD), sha256(NEW))
    assert not first.done["assumed"]
    assert alpha.imported("alpha.core.f()", "alpha.core") == "2"
    assert forms(alpha) == (sha256(OLD), sha256(NEW))

    patched = alpha.tree()
    inode = (alpha.site / FILE).stat().st_ino
    second = alpha.patch(FILE, data, kind)
    assert not second.done["changed"]
    assert alpha.tree() == patched
    assert (alpha.site / FILE).stat().st_ino == inode

    assert alpha.patch(FILE, data, kind, revert=True).done["changed"]
    assert alpha.tree() == before
    assert not alpha.patch(FILE, data, kind, revert=True).done["changed"]
    assert alpha.tree() == before
    assert alpha.litter() == []


def test_the_pristine_copy_is_never_written_again(alpha: World) -> None:
    alpha.patch(FILE, NEW)
    copy = alpha.root / "pristine" / sha256(OLD)
    was = (copy.stat().st_ino, copy.stat().st_mtime_ns, copy.stat().st_mode & 0o777)
    alpha.patch(FILE, NEW + "# more\n")
    alpha.patch(FILE, NEW, revert=True)
    alpha.patch(FILE, NEW)
    assert (copy.stat().st_ino, copy.stat().st_mtime_ns, copy.stat().st_mode & 0o777) == was
    assert was[2] == 0o444


def test_another_patch_starts_from_the_pristine_file(alpha: World) -> None:
    alpha.patch(FILE, DIFF, "diff")
    other = DIFF.replace("+V = 2", "+V = 3")
    assert alpha.patch(FILE, other, "diff").done["changed"]
    assert alpha.text(FILE) == OLD.replace("1", "3")
    assert forms(alpha) == (sha256(OLD), sha256(OLD.replace("1", "3")))


def test_a_file_changed_by_hand_is_refused_with_all_digests(alpha: World) -> None:
    alpha.patch(FILE, NEW)
    (alpha.site / FILE).write_text("V = 'by hand'\n")
    for revert in (False, True):
        refused = alpha.patch(FILE, NEW, revert=revert)
        assert refused.failed == "patch-foreign"
        for text in ("V = 'by hand'\n", OLD, NEW):
            assert sha256(text) in refused.error["message"]
    assert alpha.text(FILE) == "V = 'by hand'\n"


def test_a_file_changed_by_hand_before_klops_came(alpha: World) -> None:
    (alpha.site / FILE).write_text(NEW)
    refused = alpha.patch(FILE, NEW)
    assert refused.failed == "patch-foreign"
    assert sha256(OLD) in refused.error["message"]
    assert alpha.patch(FILE, NEW, revert=True).failed == "patch-foreign"


def test_a_file_that_no_record_lists_is_taken_as_pristine_and_told(alpha: World) -> None:
    (alpha.site / "alpha/late.py").write_text("L = 1\n")
    assert alpha.patch("alpha/late.py", "L = 2\n").done["assumed"]
    assert alpha.patch("alpha/late.py", "", revert=True).done["changed"]
    assert alpha.text("alpha/late.py") == "L = 1\n"
    assert not alpha.patch("alpha/late.py", "", revert=True).done["changed"]


def test_a_copy_for_another_version_is_stale(alpha: World) -> None:
    alpha.patch(FILE, NEW)
    alpha.put("alpha", "2.0", {FILE: "V = 20\n"})
    for path in (alpha.site / "alpha-1.0.dist-info").iterdir():
        path.unlink()
    refused = alpha.patch(FILE, NEW)
    assert refused.failed == "patch-stale"
    assert "alpha 1.0" in refused.error["message"]
    assert "alpha 2.0" in refused.error["message"]
    assert alpha.text(FILE) == "V = 20\n"
    assert alpha.patch(FILE, "V = 21\n").done["changed"]  # made for the new version
    assert forms(alpha) == (sha256("V = 20\n"), sha256("V = 21\n"))
    assert alpha.patch(FILE, "", revert=True).done["after"] == sha256("V = 20\n")


def test_the_same_version_installed_anew_is_patched_again(alpha: World) -> None:
    alpha.patch(FILE, NEW)
    (alpha.site / FILE).write_text(OLD)
    assert alpha.patch(FILE, NEW).done["changed"]
    assert alpha.text(FILE) == NEW


def test_a_diff_that_fits_elsewhere_says_so(alpha: World) -> None:
    shifted = DIFF.replace("@@ -1,3 +1,3 @@", "@@ -4,3 +4,3 @@")
    assert alpha.patch(FILE, shifted, "diff").done["offsets"] == [[1, -3]]


@pytest.mark.parametrize(
    ("data", "kind", "code", "said"),
    [
        ("def f(:\n", "copy", "patch-compile", "line 1"),
        ("a\0b", "copy", "patch-compile", "null"),
        (DIFF.replace("-V = 1", "-V = 7"), "diff", "patch-conflict", "hunk 1"),
        ("no diff", "diff", "bad-diff", "unified"),
    ],
)
def test_what_can_not_be_applied_changes_nothing(
    alpha: World, data: str, kind: str, code: str, said: str
) -> None:
    before = alpha.tree()
    refused = alpha.patch(FILE, data, kind)
    assert refused.failed == code
    assert said in json.dumps(refused.error)
    assert alpha.tree() == before
    assert alpha.packages([], [FILE])["patches"][0]["known"] is None
    assert alpha.litter() == []


def test_a_test_that_fails_puts_the_file_back(alpha: World) -> None:
    assert alpha.patch(FILE, NEW).done["changed"]
    worse = OLD.replace("1", "9")
    refused = alpha.patch(FILE, worse, test="python -c 'import alpha.core as c; print(c.V); assert c.V < 5'")
    assert refused.failed == "patch-test"
    assert "9" in refused.error["message"]
    assert alpha.text(FILE) == NEW
    assert forms(alpha) == (sha256(OLD), sha256(NEW))
    assert alpha.imported("alpha.core.V", "alpha.core") == "2"
    assert alpha.patch(FILE, worse, test="python -c 'import alpha.core as c; assert c.V == 9'").done[
        "changed"
    ]


def test_a_test_has_a_limit_of_time(alpha: World) -> None:
    refused = alpha.patch(FILE, NEW, test="sleep 600", timeout=0.2)
    assert refused.failed == "patch-test"
    assert alpha.text(FILE) == OLD


def test_of_a_test_that_is_killed_nothing_counts(alpha: World, tmp_path: Path) -> None:
    """SIGKILL of the agent during the test: the next run tests again, and goes back to what stood before."""
    assert alpha.patch(FILE, NEW).done["changed"]
    begun = tmp_path / "begun"
    worse = OLD.replace("1", "9")
    request = patch_request(
        FILE, worse, test=f"echo $$ > {begun}.new; mv {begun}.new {begun}; exec sleep 600"
    )
    with subprocess.Popen(alpha.argv("patch"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        assert agent.stdin is not None
        agent.stdin.write(json.dumps(request).encode())
        agent.stdin.close()
        until(begun.exists, what="the test has begun")
        assert alpha.text(FILE) == worse
        os.kill(agent.pid, signal.SIGKILL)
    tester = int(begun.read_text())
    until(lambda: not _runs(tester), what="the test has died with the agent")
    assert alpha.packages()["patches"][0]["known"]["pending"]

    refused = alpha.patch(FILE, worse, test="exit 7")
    assert refused.failed == "patch-test"
    assert alpha.text(FILE) == NEW
    assert forms(alpha) == (sha256(OLD), sha256(NEW))
    assert not alpha.patch(FILE, NEW).done["changed"]
    assert alpha.litter() == []


def _runs(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_killed_at_each_step(alpha: World) -> None:
    """SIGKILL at any change of the disk: the next run completes, and can be taken back."""
    before = alpha.tree()
    for count in range(1, 40):
        alpha.patch(FILE, "", revert=True)
        assert alpha.tree() == before
        killed = alpha.run_killed("patch", patch_request(FILE, NEW), ("replace", "unlink"), count)
        if killed.code == 0:
            break
        assert killed.code == -signal.SIGKILL
        assert alpha.patch(FILE, NEW).code == 0
        assert alpha.text(FILE) == NEW
    else:
        raise AssertionError("it was killed each time")
    assert count > 3
    assert alpha.litter() == []


def test_a_file_of_a_release_is_refused(alpha: World) -> None:
    release = alpha.root / "releases/abc-def"
    (release / "beta").mkdir(parents=True)
    (release / "beta/x.py").write_text("X = 1\n")
    (alpha.root / "releases/current").symlink_to("abc-def")
    (alpha.site / "beta").symlink_to(alpha.root / "releases/current/beta")
    refused = alpha.patch("beta/x.py", "X = 2\n")
    assert refused.failed == "patch-in-release"
    assert (release / "beta/x.py").read_text() == "X = 1\n"


@pytest.mark.parametrize(
    ("file", "code"), [("../../x.py", "unsafe-path"), ("alpha/none.py", "no-file"), ("alpha", "no-file")]
)
def test_files_that_no_patch_may_have(alpha: World, file: str, code: str) -> None:
    assert alpha.patch(file, NEW).failed == code


def test_a_link_that_leads_out_is_refused(alpha: World, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("X = 1\n")
    (alpha.site / "alpha/x.py").symlink_to(tmp_path / "x.py")
    assert alpha.patch("alpha/x.py", "X = 2\n").failed == "unsafe-path"


def test_an_absolute_path_inside_will_do(alpha: World) -> None:
    assert alpha.patch(str(alpha.site / FILE), NEW).done["changed"]
    assert not alpha.patch(FILE, NEW).done["changed"]


def test_a_pristine_copy_that_was_changed_is_not_used(alpha: World) -> None:
    alpha.patch(FILE, NEW)
    copy = alpha.root / "pristine" / sha256(OLD)
    copy.chmod(0o644)
    copy.write_text("spoiled\n")
    refused = alpha.patch(FILE, NEW, revert=True)
    assert refused.failed == "damaged"
    assert alpha.text(FILE) == NEW


def test_data_that_is_not_what_its_digest_says(alpha: World) -> None:
    request = {**patch_request(FILE, NEW), "digest": sha256("other")}
    assert alpha.run("patch", request).failed == "bad-request"
    assert alpha.text(FILE) == OLD


def test_a_text_file_is_not_compiled(alpha: World) -> None:
    (alpha.site / "alpha/config.json").write_text("{}\n")
    assert alpha.patch("alpha/config.json", '{"a": 1}\n').done["changed"]
