"""What is installed, read from the metadata."""

from __future__ import annotations

import hashlib
import json

import pytest

from klops.agent.errors import VerbError
from klops.agent.packages import distributions, sites
from tests.unit.agent.packages.world import World, sha256

REAL = sites.ask


def site(world: World) -> sites.Site:
    """Asked anew: what a test has put there may count."""
    return REAL(str(world.python))


def installed(world: World) -> dict[str, distributions.Distribution]:
    return distributions.installed(site(world))


def test_the_version_is_that_of_the_metadata(world: World) -> None:
    world.put("coco", "0.0.0", {"coco/__init__.py": ""})
    metadata = world.site / "coco-0.0.0.dist-info/METADATA"
    metadata.write_text("Metadata-Version: 2.1\nName: coco\nversion: 0.0.0+torch25\n\nVersion: 9\n")
    found = installed(world)["coco"]
    record = (world.site / "coco-0.0.0.dist-info/RECORD").read_bytes()
    assert (found.version, found.record) == ("0.0.0+torch25", hashlib.sha256(record).hexdigest())
    assert not found.editable


def test_names_are_compared_as_the_standard_says(world: World) -> None:
    world.put("vllm_kunlun", "0.15.1.dev0", {"vllm_kunlun/__init__.py": ""})
    found = world.packages(["vllm-kunlun", "VLLM.Kunlun", "other"])["installed"]
    assert found["vllm-kunlun"]["version"] == found["VLLM.Kunlun"]["version"] == "0.15.1.dev0"
    assert found["other"] is None


def test_an_editable_one(world: World) -> None:
    world.put("alpha", "1.0", {"__editable__.alpha-1.0.pth": "/src/alpha\n"})
    direct = {"url": "file:///src/alpha", "dir_info": {"editable": True}}
    (world.site / "alpha-1.0.dist-info/direct_url.json").write_text(json.dumps(direct))
    assert world.packages(["alpha"])["installed"]["alpha"]["editable"]


def test_old_metadata_has_no_record(world: World) -> None:
    egg = world.site / "beta-2.0-py3.10.egg-info"
    egg.write_text("Metadata-Version: 1.0\nName: beta\nVersion: 2.0\n")
    folder = world.base / "src"
    (folder / "gamma_ray.egg-info").mkdir(parents=True)
    (folder / "gamma_ray.egg-info/PKG-INFO").write_text("Name: gamma-ray\nVersion: 3.0\n")
    (world.site / "easy-install.pth").write_text(f"{folder}\n")
    found = installed(world)
    assert (found["beta"].editable, found["gamma-ray"].editable) == (False, True)
    assert [(one.version, one.record) for one in (found["beta"], found["gamma-ray"])] == [
        ("2.0", None),
        ("3.0", None),
    ]


def test_what_a_cut_off_installer_left_is_no_distribution(world: World) -> None:
    (world.site / "alpha-1.0.dist-info").mkdir()
    (world.site / "alpha-1.0.dist-info/RECORD").write_text("alpha/__init__.py,,\n")
    assert "alpha" not in installed(world)


def test_of_two_in_the_same_folder_both_are_known(world: World) -> None:
    world.put("alpha", "1.0", {"alpha/old.py": ""})
    world.put("alpha", "2.0", {"alpha/new.py": ""})
    found = distributions.every(site(world), "alpha")
    assert sorted(one.version for one in found) == ["1.0", "2.0"]


def test_the_owner_of_a_file(world: World) -> None:
    world.put("alpha-tools", "1.0", {"alpha/tools.py": "T = 1\n", 'alpha/a "b",c.py': ""})
    world.put("alpha", "2.0", {"alpha/__init__.py": "V = 2\n"})
    where = site(world)
    for file, name, text in (
        ("alpha/__init__.py", "alpha", "V = 2\n"),
        ("alpha/tools.py", "alpha-tools", "T = 1\n"),
    ):
        owner = distributions.owner(where, str(world.site / file))
        assert owner is not None
        assert (owner[0].name, owner[1]) == (name, sha256(text))
    assert distributions.owner(where, str(world.site / "alpha/tools")) is None
    assert distributions.owner(where, "/elsewhere/x.py") is None


def test_lines_of_a_record() -> None:
    digest = "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
    lines = f'a.py,{digest},0\n"b ""x"".py",md5=1,2\nc.pyc,,\n\n../bin/d,sha256=!,1\n'
    empty = hashlib.sha256(b"").hexdigest()
    expected = [("a.py", empty), ('b "x".py', None), ("c.pyc", None), ("../bin/d", None)]
    assert [tuple(file) for file in distributions.parse(lines.encode())] == expected


def test_an_interpreter_that_prints_at_its_start(world: World) -> None:
    (world.site / "noise.pth").write_text("import sys; sys.stdout.write('hello from the image ')\n")
    assert site(world).purelib == str(world.site)


def test_an_interpreter_that_prints_at_its_end(world: World) -> None:
    (world.site / "noise.pth").write_text("import atexit; atexit.register(print, 'bye')\n")
    assert site(world).purelib == str(world.site)


def test_an_interpreter_that_is_none(world: World) -> None:
    world.python.unlink()
    world.python.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    world.python.chmod(0o755)
    with pytest.raises(VerbError) as caught:
        site(world)
    assert caught.value.code == "python-unusable"
    assert "broken" in caught.value.message


@pytest.mark.parametrize("file", ["../x.py", "/etc/passwd", "", ".", "a/../../x.py"])
def test_paths_of_patches_stay_inside(world: World, file: str) -> None:
    with pytest.raises(VerbError) as caught:
        sites.relative(site(world), file)
    assert caught.value.code == "unsafe-path"


def test_reading_leaves_nothing(world: World) -> None:
    world.put("alpha", "1.0", {"alpha/__init__.py": ""})
    before = world.tree()
    found = world.packages(["alpha"], ["alpha/__init__.py", "alpha/none.py"])
    assert [(one["sha256"], one["record_sha256"], one["known"]) for one in found["patches"]] == [
        (sha256(""), sha256(""), None),
        (None, None, None),
    ]
    assert (found["saved"], found["interrupted"], found["uv"]) == ([], False, None)
    assert world.tree() == before
    assert not world.root.exists()


def test_the_command_line(world: World) -> None:
    """As in a container: isolated, without site, of a package that is no file."""
    world.put("alpha", "1.0", {"alpha/__init__.py": ""})
    found = world.run_alone("packages", None, "--names", '["alpha"]', "--files", '["alpha/__init__.py"]').last
    assert found["site"] == str(world.site)
    assert found["installed"]["alpha"] == {**world.identity("alpha"), "editable": False}
    assert [one["file"] for one in found["patches"]] == ["alpha/__init__.py"]
    refused = world.run_alone("packages", None, "--names", "alpha")
    assert (refused.code, refused.error["code"]) == (2, "usage")
