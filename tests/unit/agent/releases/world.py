"""Trees, their manifests and streams, and releases laid down below a root of the test's own."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from klops.agent.releases import activate, files, known, send
from klops.agent.releases.places import Places
from klops.agent.releases.stream import Gone
from klops.source.manifest import FILE, LINK, Entry, Release, digest
from klops.source.manifest.release import named, ordered

COMMITTED = 1_700_000_000
#: Where klops and its tests are.
REPOSITORY = str(Path(known.__file__).parents[3])


class File(NamedTuple):
    """A file of a tree."""

    content: bytes
    executable: bool = False


class Link(NamedTuple):
    """A symbolic link of a tree."""

    target: bytes


if TYPE_CHECKING:
    #: by path; what isn't UTF-8 in it as surrogates
    Tree = Mapping[str, File | Link]


def package(text: str, name: str = "pkg") -> dict[str, File]:
    """A tree with a small Python package."""
    return {
        f"{name}/__init__.py": File(f"which = {text!r}\n".encode()),
        f"{name}/same.py": File(b"same = 1\n"),
    }


def install(site: Path, text: str, name: str = "pkg") -> Path:
    """Another copy of the package, as an installer puts it."""
    folder = site / name
    folder.mkdir()
    (folder / "__init__.py").write_text(f"which = {text!r}\n")
    return folder


def content(one: File | Link) -> bytes:
    """What travels of an entry."""
    return one.target if isinstance(one, Link) else one.content


def entry(path: str, one: File | Link) -> Entry:
    """How a manifest has it."""
    data = content(one)
    kind, mode = (LINK, 0o777) if isinstance(one, Link) else (FILE, 0o755 if one.executable else 0o644)
    return Entry(path, kind, mode, len(data), hashlib.sha256(data).hexdigest())


def release_of(tree: Tree, commit: str = "c0ffee" * 4, **about: Any) -> Release:
    """The release that a tree is."""
    entries = tuple(ordered(entry(path, one) for path, one in tree.items()))
    summed = digest(entries)
    return Release(
        named(commit, summed), summed, {"commit": commit, "committed": COMMITTED, **about}, entries
    )


def stream(release: Release, lacking: list[int], tree: Tree) -> bytes:
    """What the control side sends."""
    return gzip.compress(b"".join(content(tree[release.entries[index].path]) for index in lacking), 1)


def reader(parts: Iterable[bytes], most: int = 1 << 30) -> Any:
    """A pipe that gives these bytes, each part when it is its turn, at most so many at once."""
    pieces, view = iter(parts), memoryview(b"")

    def read(asked: int) -> bytes:
        nonlocal view
        while not view:
            try:
                view = memoryview(next(pieces))
            except StopIteration:
                return b""
        part, view = view[: min(asked, most)], view[min(asked, most) :]
        return bytes(part)

    return read


def heard(_: Mapping[str, Any]) -> bool:
    """Somebody reads."""
    return True


class World:
    """A root, and a host's side of its releases."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "klops"
        self.places = Places(str(self.root))

    def offer(self, tree: Tree, **about: Any) -> Any:
        """What is told to be lacking of a tree, to somebody who then goes away."""
        told: dict[str, Any] = {}

        def tell(value: Mapping[str, Any]) -> bool:
            told.update(value)
            return False

        with contextlib.suppress(Gone):
            self.send(tree, tell=tell, **about)
        return told

    def lacks(self, tree: Tree, **about: Any) -> list[str]:
        """The paths of it."""
        release = release_of(tree, **about)
        return [release.entries[index].path for index in self.offer(tree, **about)["lacking"]]

    def send(
        self,
        tree: Tree,
        spoil: Callable[[bytes], bytes] = bytes,
        tell: Callable[[Mapping[str, Any]], bool] = heard,
        *,
        most: int = 1 << 30,
        gone: bool = False,
        request: Any = None,
        note: Any = None,
        **about: Any,
    ) -> Any:
        """Send a tree: what it lacks, ``spoil`` of it. ``request``: for the activation that follows, ``note``
        for the generation that it makes."""
        release = release_of(tree, **about)
        told: dict[str, Any] = {}

        def hear(value: Mapping[str, Any]) -> bool:
            told.update(value)
            return tell(value)

        def parts() -> Iterator[bytes]:
            yield release.dumps()
            yield spoil(stream(release, told["lacking"], tree))

        asked = {"manifest": len(release.dumps()), "activate": request, "note": note}
        return send.send(self.places, asked, reader(parts(), most), hear, lambda _: gone)

    def activate(self, name: str, **more: Any) -> Any:
        """Make a release the current one."""
        return activate.activate(self.places, {"name": name, **more})

    def sync(self, tree: Tree, **more: Any) -> str:
        """All of it; the name of what is current then."""
        name = str(self.send(tree)["name"])
        self.activate(name, **more)
        return name

    @property
    def current(self) -> str:
        """The name of the current release."""
        return Path(self.places.current).resolve(strict=True).name

    def path(self, name: str) -> Path:
        """The folder of a release."""
        return self.root / "releases" / name

    def damage(self, name: str) -> Any:
        """What is wrong with a release."""
        return known.damage(self.places.tree(name), known.load(self.places, name))

    def litter(self) -> list[str]:
        """What lies there that belongs to no release."""
        folder = Path(self.places.folder)
        within = [path for name in (".incoming", ".building", ".trash") for path in (folder / name).iterdir()]
        whole = known.whole(self.places)
        expected = {".lock", ".incoming", ".building", ".trash", "current", "targets.json"}
        expected |= {name + ending for name in whole for ending in ("", ".json")}
        return sorted(str(path.name) for path in [*within, *folder.iterdir()] if path.name not in expected)


def on_disk(folder: Path) -> dict[str, File | Link]:
    """The tree that lies in a folder."""
    return dict(_on_disk(os.fsencode(str(folder)), b""))


def _on_disk(folder: bytes, below: bytes) -> Iterator[Any]:
    for found in os.scandir(folder):
        path = below + found.name
        if found.is_dir(follow_symlinks=False):
            yield from _on_disk(found.path, path + b"/")
        elif found.is_symlink():
            yield path.decode("utf-8", "surrogateescape"), Link(os.readlink(found.path))  # noqa: PTH115  # any bytes
        else:
            with open(found.path, "rb") as file:  # noqa: PTH123  # any bytes
                mode = os.fstat(file.fileno()).st_mode
                yield path.decode("utf-8", "surrogateescape"), File(file.read(), bool(mode & 0o111))


def writable(path: Path) -> None:
    """Let a test change a file of a release, as root could all the same."""
    path.parent.chmod(0o755)
    if path.exists():
        path.chmod(0o644)


def tidy(folder: Path) -> None:
    """Remove read-only folders, which pytest could not where it isn't root."""
    files.remove(os.fsencode(str(folder)))


def in_own_mounts(script: str, program: str, folder: Path) -> list[str]:
    """What a Python program says that a shell script starts once it has mounted something, for itself alone.

    The script is given the folder, the interpreter and the program; it ends with 77 where it may not mount.
    """
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", str(folder), sys.executable, program],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([REPOSITORY, *sys.path])},
        check=False,
    )
    said = done.stderr.decode()
    if done.returncode == 77 or said.startswith("unshare: unshare failed"):
        pytest.skip("nothing can be mounted here: " + said.strip())
    assert done.returncode == 0, said
    return done.stdout.decode().splitlines()
