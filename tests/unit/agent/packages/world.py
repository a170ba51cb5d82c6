"""A Python environment of its own with small distributions, and the agent's verbs on it.

Verbs mostly run in the process of the test, with the environment in place of its own; where a test ends the
agent, or what stands on its command line counts, it is a process of its own, started as in a container.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from klops.agent.errors import VerbError
from klops.agent.packages import sites, verb
from tests.unit.agent.killing import forked
from tests.unit.agent.packages import wheels

_REPOSITORY = str(Path(__file__).resolve().parents[4])
#: The agent's command line.
_AGENT = """
import sys
sys.path.insert(0, {repository!r})
from klops.agent.main import main
sys.exit(main(sys.argv[1:], ""))
"""
#: The folder of the environment that was asked where its packages are, and what it said.
_ASKED: dict[str, sites.Site] = {}
_VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"


def uv() -> str | None:
    """The real uv: of the environment that the tests run in, or on PATH."""
    beside = Path(sys.executable).parent / "uv"
    return str(beside) if beside.exists() else shutil.which("uv")


class Answer:
    """What a verb printed, and how it ended."""

    def __init__(self, code: int, output: str) -> None:
        self.code = code
        self.output = output
        printed = [json.loads(line) for line in output.splitlines()]
        self.lines = [one["line"] for one in printed if "line" in one]
        last: dict[str, Any] = printed[-1] if printed else {}
        self.last = last
        self.error: dict[str, str] = last.get("error", {})

    @property
    def done(self) -> dict[str, Any]:
        assert "done" in self.last, self.output
        done: dict[str, Any] = self.last["done"]
        return done

    @property
    def failed(self) -> str:
        """The code of the failure."""
        assert self.code == 1, self.output
        return self.error["code"]


class World:
    """An environment below ``base``: ``site`` its packages, ``root`` klops', ``wheels`` a folder of them."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base = base
        self.prefix = base / "env"
        self.bin = self.prefix / "bin"
        self.python = self.bin / "python"
        self.site = self.prefix / "lib" / f"python{_VERSION}" / "site-packages"
        self.root = base / "root"
        self.wheels = base / "wheels"
        self.home = base / "home"
        for folder in (self.bin, self.site, self.wheels, self.home):
            folder.mkdir(parents=True)
        interpreter = Path(os.path.realpath(sys.executable))
        self.python.symlink_to(interpreter)
        alone = "include-system-site-packages = false\n"
        (self.prefix / "pyvenv.cfg").write_text(f"home = {interpreter.parent}\nversion = {_VERSION}\n{alone}")
        self._ask = sites.ask
        self._monkeypatch = monkeypatch
        if not _ASKED:
            _ASKED[str(base)] = sites.ask(str(self.python))
        # all of them are alike: one is asked, of the others only the folder differs
        ((other, found),) = _ASKED.items()
        here = {
            key: one.replace(other, str(base)) for key, one in found._asdict().items() if isinstance(one, str)
        }
        path = tuple(one.replace(other, str(base)) for one in found.path)
        self._sites_are(found._replace(path=path, **here))
        for name, value in self.environment().items():
            monkeypatch.setenv(name, value)

    def sites_anew(self) -> None:
        """Ask the interpreter where its packages are: after a test has changed its path."""
        self._sites_are(self._ask(str(self.python)))

    def _sites_are(self, found: sites.Site) -> None:
        self._monkeypatch.setattr(sites, "ask", lambda: found)

    def have_uv(self) -> None:
        """uv beside the interpreter."""
        found = uv()
        assert found is not None
        self.uv_is(f'exec {found} "$@"')

    def uv_is(self, script: str) -> None:
        """A script of the shell that stands for uv; ``$UV`` is the real one."""
        place = self.bin / "uv"
        place.write_text(f"#!/bin/sh\nUV={uv()}\n{script}\n")
        place.chmod(0o755)

    def put(self, name: str, version: str, files: Mapping[str, str]) -> None:
        """Install a distribution, without an installer."""
        for path, data in wheels.contents(name, version, files).items():
            place = self.site / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)

    def argv(self, verb: str, *words: str) -> list[str]:
        code = _AGENT.format(repository=_REPOSITORY)
        return [str(self.python), "-I", "-S", "-B", "-c", code, verb, "--root", str(self.root), *words]

    def environment(self) -> dict[str, str]:
        """As ``docker exec`` gives it, and no uv on PATH."""
        path = "/usr/bin:/bin"
        return {
            "PATH": path,
            "HOME": str(self.home),
            "UV_CACHE_DIR": str(self.base / "cache"),
            "UV_HTTP_RETRIES": "0",
        }

    def run(self, name: str, request: Any = None, *words: str) -> Answer:
        """Run a verb to its end."""
        lines: list[str] = []

        def tell(value: Mapping[str, Any]) -> bool:
            lines.append(json.dumps(value))
            return True

        try:
            if name == "packages":
                tell(verb.packages(str(self.root), words[0], words[1]))
            else:
                assert verb.change(name, str(self.root), json.dumps(request), tell, lambda seconds: False)
        except VerbError as failure:
            tell({"error": failure.as_json()})
            return Answer(1, "\n".join(lines))
        return Answer(0, "\n".join(lines))

    def run_killed(self, name: str, request: Any, calls: Sequence[str], count: int) -> Answer:
        """Run a verb in a process that is killed at the so-and-so-many-th call of these of ``os``."""

        def call() -> tuple[int, str]:
            answer = self.run(name, request)
            return answer.code, answer.output

        return Answer(*forked(call, [(os, one) for one in calls], count))

    def run_alone(self, name: str, request: Any, *words: str) -> Answer:
        """Run a verb as a process of its own, started as in a container."""
        done = subprocess.run(
            self.argv(name, *words),
            input="" if request is None else json.dumps(request),
            capture_output=True,
            text=True,
            check=False,
        )
        assert not done.stderr, done.stderr
        return Answer(done.returncode, done.stdout)

    def stack(self, *install: Mapping[str, Any], **more: Any) -> Answer:
        request = {"install": install, "wheel_dir": str(self.wheels), "timeout": 120, "run": "r1", **more}
        return self.run("stack", request)

    def patch(self, file: str, data: str, kind: str = "copy", **more: Any) -> Answer:
        """Ask for a patch. In ``data`` line ends stay what they are."""
        return self.run("patch", patch_request(file, data, kind, **more))

    def restore(self, distributions: Mapping[str, Any], patches: Mapping[str, Any]) -> Answer:
        return self.run("restore", {"distributions": distributions, "patches": patches, "run": "r1"})

    def packages(self, names: Sequence[str] = (), files: Sequence[str] = ()) -> dict[str, Any]:
        found = self.run("packages", None, json.dumps(names), json.dumps(files))
        assert found.code == 0, found.output
        return found.last

    def identity(self, name: str) -> dict[str, Any]:
        """``{"version", "record"}`` of what is installed."""
        found = self.packages([name])["installed"][name]
        return {key: found[key] for key in ("version", "record")}

    def text(self, file: str) -> str:
        return (self.site / file).read_bytes().decode()

    def imported(self, expression: str, module: str) -> str:
        """What the environment's Python, freshly started, makes of an expression after an import."""
        code = f"import {module}; print({expression})"
        env = {"PYTHONDONTWRITEBYTECODE": "", "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            [str(self.python), "-c", code], capture_output=True, text=True, env=env, check=True
        )
        return done.stdout.strip()

    def tree(self) -> dict[str, tuple[str, int]]:
        """Digest and mode of all in site-packages and bin, but what Python compiled."""
        found = {}
        for top in (self.site, self.bin):
            for path in sorted(top.rglob("*")):
                inside = str(path.relative_to(self.prefix))
                if path.name == "__pycache__" or path.suffix == ".pyc":
                    continue
                status = path.lstat()
                link = stat.S_ISLNK(status.st_mode)
                # a Path of Python 3.8 can't read a link
                data = os.readlink(path).encode() if link else b"" if path.is_dir() else path.read_bytes()  # noqa: PTH115
                found[inside] = (hashlib.sha256(data).hexdigest(), stat.S_IMODE(status.st_mode))
        return found

    def litter(self) -> list[str]:
        """What no run may leave."""
        return sorted(
            str(path.relative_to(self.base))
            for top in (self.prefix, self.root)
            for path in top.rglob("*")
            if "klops-new" in path.name or path.name.endswith(".new") or path.name.startswith("journal")
        )


def patch_request(file: str, data: str, kind: str = "copy", **more: Any) -> dict[str, Any]:
    raw = data.encode()
    coded = base64.b64encode(raw).decode()
    return {"file": file, "kind": kind, "data": coded, "digest": sha256(data), "run": "r1", **more}


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
