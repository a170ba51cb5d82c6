"""What the host tests share: running klops as its users do, and looking at a host from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Done:
    """A finished klops: exit status, both streams, and the JSON document when standard output is one."""

    rc: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """Standard output as JSON; it has to be JSON alone."""
        return json.loads(self.stdout)


def klops(
    *args: str, env: Mapping[str, str] | None = None, timeout: float = 300, cwd: Path | None = None
) -> Done:
    """Run the klops of this interpreter as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "klops", *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "NO_COLOR": "1", **(env or {})},
        cwd=cwd,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def get(
    port: int, path: str, key: str | None = None, body: Mapping[str, Any] | None = None
) -> tuple[int, Any]:
    """One HTTP request to the service on this machine: status and JSON (None where the body is none)."""
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=data, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            status, raw = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, raw = error.code, error.read()
    try:
        return status, json.loads(raw)
    except ValueError:
        return status, None


def models(port: int, key: str | None) -> list[str] | int:
    """Names of GET /v1/models, or the status when that isn't 200."""
    status, document = get(port, "/v1/models", key)
    return [m["id"] for m in document["data"]] if status == 200 else status


def tree(directory: Path) -> dict[str, tuple[int, int]]:
    """Every path below a folder with size and modification time: a run that wrote nothing leaves it so."""
    found = {}
    for path in sorted(directory.rglob("*")):
        stat = path.lstat()
        found[str(path.relative_to(directory))] = (stat.st_size, stat.st_mtime_ns)
    return found
