"""A git repository like one of vLLM: 2,000 files and 20 MB of code and some binaries, the same every time."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

SEED = 7
FILES = 2000
FOLDERS = 250
#: Files that aren't text, and how many bytes they have at most.
BINARIES, BINARY_BYTES = 60, 100_000
#: Of the sizes of text files: half are below the median, a few are some hundred KB (log-normal).
MEDIAN_BYTES, SPREAD = 4_000, 1.25
#: A folder of few files, for what takes a second a file; one of them is changed each time too.
PART, PART_FILES = "examples", 20
#: Files that a change touches.
CHANGED = 5

_GIT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_NAME": "bench" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "bench@localhost" for who in ("AUTHOR", "COMMITTER")},
}
_KEYWORDS = [
    "def",
    "return",
    "if",
    "else",
    "for",
    "in",
    "not",
    "None",
    "self",
    "class",
    "import",
    "from",
    "with",
]


@dataclass
class Repository:
    """A work tree at ``folder`` with its repository, committed and packed as a clone is."""

    folder: Path
    #: text files, in the order they were made
    texts: list[Path] = field(default_factory=list)
    _random: random.Random = field(default_factory=lambda: random.Random(SEED))

    def git(self, *args: str) -> None:
        """Run git in it, whatever this machine's configuration says."""
        subprocess.run(["git", *args], cwd=self.folder, env={**os.environ, **_GIT}, check=True)

    def change(self) -> None:
        """Append a line to some files, one of them in ``PART``, and commit that."""
        part = [path for path in self.texts if path.is_relative_to(self.folder / PART)]
        rest = [path for path in self.texts if path not in part]
        for path in (self._random.choice(part), *self._random.sample(rest, CHANGED - 1)):
            with path.open("a", encoding="utf-8") as file:
                file.write(f"# {self._random.getrandbits(64):x}\n")
        self.git("commit", "-qam", "a change")


def make(folder: Path) -> Repository:
    """Make the repository in ``folder``, which must not be there."""
    made = Repository(folder)
    rng, words = made._random, _Words(made._random)
    folders = [folder]
    while len(folders) < FOLDERS:
        folders.append(rng.choice(folders[-60:]) / f"{words.one()}_{len(folders)}")
    for number in range(FILES):
        home = folder / PART if number < PART_FILES else rng.choice(folders)
        home.mkdir(parents=True, exist_ok=True)
        if FILES - number <= BINARIES:
            data = rng.randbytes(rng.randrange(BINARY_BYTES))
            (home / f"{words.one()}_{number}.bin").write_bytes(data)
        else:
            made.texts.append(home / f"{words.one()}_{number}.py")
            made.texts[-1].write_text(words.code(_size(rng)), encoding="utf-8")
    made.git("init", "-q", "-b", "main")
    made.git("config", "gc.auto", "0")
    made.git("add", "-A")
    made.git("commit", "-qm", "all of it")
    made.git("repack", "-adq")
    return made


def digest(folder: Path) -> tuple[str, int, int]:
    """What a tree's files are called and hold, as one digest; how many, and their bytes. Without ``.git``."""
    total, size = hashlib.sha256(), 0
    paths = sorted(path for path in _files(folder) if ".git" not in path.relative_to(folder).parts)
    for path in paths:
        data = path.read_bytes()
        size += len(data)
        total.update(f"{path.relative_to(folder)}\0{hashlib.sha256(data).hexdigest()}\n".encode())
    return total.hexdigest(), len(paths), size


def _files(folder: Path) -> Iterator[Path]:
    for home, _, names in os.walk(folder):
        yield from (Path(home, name) for name in names)


def _size(rng: random.Random) -> int:
    return min(400_000, round(MEDIAN_BYTES * rng.lognormvariate(0, SPREAD)))


class _Words:
    """Makes text that compresses about as code does: names from one list, few of them often."""

    def __init__(self, rng: random.Random) -> None:
        self._random = rng
        syllables = [a + b for a in "bcdfghlmnprstv" for b in "aeiou"]
        names = ["".join(rng.choices(syllables, k=rng.randint(1, 3))) for _ in range(3000)]
        names = [rng.choice(names) + "_" + name if rng.random() < 0.3 else name for name in names]
        self._words = _KEYWORDS + names
        self._weights = list(accumulate(1 / (rank + 3) for rank in range(len(self._words))))

    def one(self) -> str:
        """A name."""
        return self._random.choice(self._words[len(_KEYWORDS) :])

    def code(self, size: int) -> str:
        """About ``size`` bytes of lines with indents; about half of them were there shortly before."""
        rng, lines, length = self._random, [""], 0
        while length < size:
            words = rng.choices(self._words, cum_weights=self._weights, k=rng.randint(1, 12))
            fresh = "    " * rng.randrange(4) + rng.choice((" ", "(", ".", " = ")).join(words)
            more = [fresh, *rng.choices(lines[-40:], k=rng.randrange(3))]
            lines += more
            length += sum(map(len, more)) + len(more)
        return "\n".join(lines) + "\n"
