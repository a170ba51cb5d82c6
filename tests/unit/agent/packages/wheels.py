"""Small distributions as wheels, made here: no test needs a network."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def contents(
    name: str,
    version: str,
    files: Mapping[str, str],
    requires: Sequence[str] = (),
    scripts: Sequence[str] = (),
) -> dict[str, bytes]:
    """What a wheel of a distribution holds, RECORD included; ``scripts``: entry points (``x = pkg:main``)."""
    info = f"{name}-{version}.dist-info"
    made = {path: text.encode() for path, text in files.items()}
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    made[f"{info}/METADATA"] = (metadata + "".join(f"Requires-Dist: {one}\n" for one in requires)).encode()
    made[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: klops\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    if scripts:
        made[f"{info}/entry_points.txt"] = ("[console_scripts]\n" + "\n".join(scripts) + "\n").encode()
    lines = [f"{path},sha256={_digest(data)},{len(data)}" for path, data in made.items()]
    made[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    return made


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def wheel(folder: Path, name: str, version: str, files: Mapping[str, str], **more: Sequence[str]) -> Path:
    """A wheel in a folder, called by its metadata."""
    return called(folder / f"{name}-{version}-py3-none-any.whl", name, version, files, **more)


def called(path: Path, name: str, version: str, files: Mapping[str, str], **more: Sequence[str]) -> Path:
    """A wheel whose name may say something else than its metadata."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for inside, data in contents(name, version, files, **more).items():
            archive.writestr(inside, data)
    return path
