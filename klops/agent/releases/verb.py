"""The verbs about releases: ``releases``, ``send``, ``build``, ``activate``."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sys
from typing import Any, Callable, Iterator, Mapping

from klops.agent.errors import VerbError
from klops.agent.options import Options
from klops.agent.releases.places import Places

_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
Tell = Callable[[Mapping[str, Any]], bool]


class Asker:
    """Who asked: how to tell something, what was given, and whether anybody is still there."""

    def __init__(self, tell: Tell, line: Callable[[], str], gone: Callable[[float], bool]) -> None:
        """``tell`` is False when nobody reads; ``line`` reads the first line of standard input."""
        self.tell = tell
        self.line = line
        self.gone = gone


def run(options: Options, asker: Asker) -> bool:
    """Answer one verb; False when nobody reads any more. Raises :class:`VerbError` and ``OSError``."""
    places = Places(options.root)
    if options.verb == "releases":
        return asker.tell(_releases(options, places))
    from klops.agent.releases.stream import Gone

    try:
        with _signals():
            return _change(options, places, asker)
    except Gone:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        from klops.agent.releases.room import disk_full

        raise disk_full(places, str(error)) from error


def _releases(options: Options, places: Places) -> Mapping[str, Any]:
    from klops.agent.releases import look, targets

    asked = options.values.get("--imports")
    wanted = None if asked is None else targets.read(_json(asked))
    paths = _json(options.values.get("--paths", "[]"))
    verify, entries = ("--verify" in options.flags, "--entries" in options.flags)
    return look.look(places, verify=verify, wanted=wanted, paths=paths, entries=entries)


def _change(options: Options, places: Places, asker: Asker) -> bool:
    # what follows the line that says what is sent is its own affair
    one_line = options.verb == "send" or "--while-stdin" in options.flags
    request = _json(asker.line() if one_line else sys.stdin.read())
    if not isinstance(request, dict):
        raise VerbError("usage", f"{options.verb} takes a JSON object on standard input")
    if options.verb == "send":
        from klops.agent.releases.send import send

        def read(most: int) -> bytes:
            return os.read(0, most)

        return asker.tell({"done": send(places, request, read, asker.tell, asker.gone)})
    if options.verb == "activate":
        from klops.agent.releases.activate import activate

        return asker.tell(activate(places, request))
    from klops.agent.releases import building
    from klops.agent.releases.stream import Gone

    def line(text: str) -> None:
        if not asker.tell({"line": text}):
            raise Gone

    def check() -> None:
        if asker.gone(0.0):
            raise Gone

    asked = building.read(request)
    return asker.tell({"done": building.build(places, options.name, asked, line, check)})


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise VerbError("usage", f"no JSON: {error}") from error


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """What would end this process ends the verb, once: what it then puts back isn't interrupted again."""

    def end(number: int, _: object) -> None:
        for one in _ENDING:
            signal.signal(one, signal.SIG_IGN)
        raise VerbError("interrupted", f"it was ended by {signal.Signals(number).name}", "repeat it")

    before = {number: signal.signal(number, end) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
