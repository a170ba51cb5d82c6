"""Builds the agent: one zip file that Python runs, the same bytes wherever and whenever it is built."""

from __future__ import annotations

import functools
import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import klops

#: Hex digits of sha256 that name a package.
DIGEST_LENGTH = 16
#: The oldest time a zip file can name; the real one would make every build differ.
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class AgentPackage:
    """``digest`` names it: the first hex digits of the sha256 of ``data``. ``sha256`` has all 64."""

    digest: str
    sha256: str
    data: bytes


def sources(package: Path) -> dict[str, bytes]:
    """What goes in, by path in the zip: the agent, the cards' domain and what a release consists of, and the
    start file at the top.

    Line ends are made LF, so that a checkout on Windows gives the same package.
    """
    files = {
        "__main__.py": package / "agent" / "__main__.py",
        "klops/__init__.py": package / "__init__.py",
        "klops/source/__init__.py": package / "source" / "__init__.py",
    }
    for part in ("agent", "cards", "source/manifest"):
        for path in sorted((package / part).rglob("*.py")):
            files[f"klops/{path.relative_to(package).as_posix()}"] = path
    return {name: path.read_bytes().replace(b"\r\n", b"\n") for name, path in sorted(files.items())}


def pack(files: dict[str, bytes]) -> AgentPackage:
    """Zip the files. Stored, not deflated: what zlib makes of the same bytes differs between its versions."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted(files.items()):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.create_system = 3
            info.external_attr = 0o100644 << 16
            archive.writestr(info, content)
    data = buffer.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    return AgentPackage(digest[:DIGEST_LENGTH], digest, data)


@functools.cache
def build() -> AgentPackage:
    """The agent of this klops. Built once per process."""
    return pack(sources(Path(klops.__file__).parent))
