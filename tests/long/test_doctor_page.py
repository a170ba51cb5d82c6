"""The page of ``klops doctor xccl --html`` in a real browser: Chromium without a screen."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from klops.ui.doctor.page import page
from tests.unit.ui.diagnoses import card_3_is_bad, diagnosis

pytestmark = pytest.mark.long

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


@dataclass
class Site:
    """Pages on the loopback by path, and which paths were asked for."""

    pages: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    port: int = 0

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"


@dataclass(frozen=True)
class Browser:
    program: str
    folder: Path

    def __call__(self, url: str, *options: str) -> str:
        """Load a page and print what it has become."""
        argv = [
            *(self.program, "--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            # whatever it wants of the world beside the page is asked of nobody
            *(
                "--proxy-server=127.0.0.1:9",
                "--proxy-bypass-list=127.0.0.1",
                "--disable-background-networking",
            ),
            *(f"--user-data-dir={self.folder / 'profile'}", *(options or ("--dump-dom",)), url),
        ]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed (scripts/setup-host --long)")
    return Browser(program, tmp_path)


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append(self.path)
            text = made.pages.get(self.path)
            self.send_response(200 if text is not None else 404)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write((text or "").encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - so the library calls it
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.port = server.server_port
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def test_it_fetches_nothing_and_runs_nothing_whatever_a_host_says(browser: Browser, site: Site) -> None:
    hostile = (
        f"</title></style><script>document.title='gone'</script><img src={site.url('/stolen')} "
        "onerror=document.title='gone'>"
    )
    found = card_3_is_bad() | {"summary": hostile, "notes": [hostile]}
    found["cards"][2]["serial"] = hostile
    site.pages = {"/page": page({"p800-01": found}, {}), "/careless": f"<title>x</title>{hostile}"}
    # a page without care does all of it in this browser, so that the next lines can tell
    assert "<title>gone</title>" in browser(site.url("/careless"))
    assert "/stolen" in site.asked
    site.asked.clear()
    dom = browser(site.url("/page"))
    assert set(site.asked) <= {"/page", "/favicon.ico"}
    assert "<title>Cards of p800-01</title>" in dom
    assert dom.count("&lt;script&gt;document.title='gone'&lt;/script&gt;") == 3
    assert "<script" not in dom


def first_pixel(picture: Path) -> tuple[int, ...]:
    """The colour of the upper left corner of a PNG: no filter changes it, as nothing is before it."""
    data, at, packed = picture.read_bytes(), 8, b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += length + 12
    return tuple(zlib.decompress(packed)[1:4])


def test_it_is_drawn_in_the_light_in_the_dark_and_on_paper(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page({"p800-01": card_3_is_bad(), "p800-02": diagnosis()}, {}), "utf-8")
    corners = {}
    # Blink's numbers: 0 is dark, 1 is light
    for name, scheme in (("dark", 0), ("light", 1)):
        picture = tmp_path / f"{name}.png"
        browser(
            file.as_uri(),
            f"--blink-settings=preferredColorScheme={scheme}",
            "--window-size=1100,2400",
            f"--screenshot={picture}",
        )
        corners[name] = first_pixel(picture)
    assert corners == {"dark": (13, 17, 23), "light": (255, 255, 255)}
    paper = tmp_path / "page.pdf"
    browser(file.as_uri(), f"--print-to-pdf={paper}")
    assert paper.read_bytes().startswith(b"%PDF")
