"""Images made by hand, as an archive of ``docker save`` and as a registry has them, and such a registry."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import tarfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_DOCKER = "application/vnd.docker"


def digest(data: bytes) -> str:
    """As registries name a content."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass(frozen=True)
class Picture:
    """An image of one layer with one file, which makes it different from others."""

    mark: str
    size: int = 1000

    @cached_property
    def layer(self) -> bytes:
        """The layer as a tar."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            entry = tarfile.TarInfo("mark")
            content = self.mark.encode().ljust(self.size, b"\0")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        return buffer.getvalue()

    @cached_property
    def config(self) -> bytes:
        """The configuration; its digest is the image's id."""
        machine = platform.machine()
        return json.dumps(
            {
                "architecture": _ARCHITECTURES.get(machine, machine),
                "os": "linux",
                "config": {"Cmd": ["/mark"]},
                "rootfs": {"type": "layers", "diff_ids": [digest(self.layer)]},
            }
        ).encode()

    @property
    def id(self) -> str:
        """As docker has it."""
        return digest(self.config)

    def save(self, file: IO[bytes], name: str) -> None:
        """Write what ``docker save NAME`` would."""
        config, layer = f"{self.id[7:]}.json", "layer/layer.tar"
        manifest = [{"Config": config, "RepoTags": [name], "Layers": [layer]}]
        with tarfile.open(fileobj=file, mode="w|") as tar:
            contents = {
                config: self.config,
                layer: self.layer,
                "manifest.json": json.dumps(manifest).encode(),
            }
            for path, content in contents.items():
                entry = tarfile.TarInfo(path)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))

    def archive(self, path: Path, name: str) -> Path:
        """The same as a file, packed when its name ends with gz."""
        buffer = io.BytesIO()
        self.save(buffer, name)
        data = buffer.getvalue()
        path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)
        return path


@dataclass
class Registry:
    """A registry on 127.0.0.1, which docker uses without TLS.

    ``tags`` says what a name means now. ``login`` makes it ask for one; while ``gate`` is clear, it sends
    half of a layer and no more. ``fetched`` counts layers that were sent.
    """

    tags: dict[str, Picture] = field(default_factory=dict)
    login: bool = False
    gate: threading.Event = field(default_factory=threading.Event)
    fetched: int = 0
    #: set when half a layer was sent
    halfway: threading.Event = field(default_factory=threading.Event)
    _contents: dict[str, tuple[str, bytes]] = field(default_factory=dict)

    def __enter__(self) -> Registry:
        self.gate.set()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                registry.answer(self)

            def do_HEAD(self) -> None:
                registry.answer(self)

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()

    def name(self, tag: str) -> str:
        """The whole name of an image."""
        return f"127.0.0.1:{self._server.server_port}/team/vllm:{tag}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """One request: ``/v2/``, a manifest by tag or digest, a blob by digest."""
        if self.login:
            asks = {"WWW-Authenticate": 'Basic realm="made up"'}
            error = {"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]}
            self._send(request, 401, json.dumps(error).encode(), asks)
            return
        *_, kind, wanted = request.path.split("/")
        if request.path == "/v2/":
            self._send(request, 200, b"{}", {})
        elif kind == "manifests" and wanted in self.tags:
            self._send_content(request, self._manifest(self.tags[wanted]))
        elif wanted in self._contents:
            self._send_content(request, wanted)
        else:
            error = {"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}
            self._send(request, 404, json.dumps(error).encode(), {})

    def _manifest(self, picture: Picture) -> str:
        layer = gzip.compress(picture.layer, 1, mtime=0)
        parts = [
            (f"{_DOCKER}.container.image.v1+json", picture.config),
            (f"{_DOCKER}.image.rootfs.diff.tar.gzip", layer),
        ]
        kind = f"{_DOCKER}.distribution.manifest.v2+json"
        config, blob = ({"mediaType": m, "size": len(d), "digest": digest(d)} for m, d in parts)
        whole = {"schemaVersion": 2, "mediaType": kind, "config": config, "layers": [blob]}
        for media, data in (*parts, (kind, json.dumps(whole).encode())):
            self._contents[digest(data)] = (media, data)
        return digest(data)

    def _send_content(self, request: BaseHTTPRequestHandler, wanted: str) -> None:
        media, data = self._contents[wanted]
        self._send(request, 200, data, {"Content-Type": media, "Docker-Content-Digest": wanted})

    def _send(
        self, request: BaseHTTPRequestHandler, status: int, data: bytes, headers: Mapping[str, Any]
    ) -> None:
        request.send_response(status)
        for name, value in {**headers, "Content-Length": len(data)}.items():
            request.send_header(name, str(value))
        request.end_headers()
        if request.command == "HEAD":
            return
        half = len(data) // 2 if "gzip" in str(headers.get("Content-Type")) else len(data)
        request.wfile.write(data[:half])
        request.wfile.flush()
        if half < len(data):
            self.halfway.set()
            self.gate.wait()
            request.wfile.write(data[half:])
            self.fetched += 1
