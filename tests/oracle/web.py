"""What the web server of the playbooks answers."""

from __future__ import annotations

import http.server
import json


class Answers(http.server.BaseHTTPRequestHandler):
    """``/json`` a document, ``/status/N`` that status, POST what was sent; everything else is a greeting."""

    protocol_version = "HTTP/1.1"

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        """See above."""
        if self.path.startswith("/status/"):
            self._answer(int(self.path.rsplit("/", 1)[1]), b"as asked\n", "text/plain")
        elif self.path == "/json":
            document = {"name": "tiny", "loaded": True, "cards": [0, 1]}
            self._answer(200, json.dumps(document).encode(), "application/json")
        else:
            self._answer(200, b"hello\n", "text/plain")

    def do_POST(self) -> None:
        """The body, the method and two headers as JSON."""
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        shown = {"sent": sent, "kind": self.headers.get("Content-Type"), "x": self.headers.get("X-Probe")}
        self._answer(200, json.dumps(shown).encode(), "application/json")

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""
