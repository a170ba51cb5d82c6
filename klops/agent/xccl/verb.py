"""The verb ``xccl``: refuse or begin, drive the plan, end everything, say what came of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import Callable, Iterator

from klops.agent import store
from klops.agent.audit import Audit
from klops.agent.errors import VerbError
from klops.agent.processes import devices, subreaper
from klops.agent.trouble import Troubles
from klops.agent.units import killing
from klops.agent.units.lineage import Lineage
from klops.agent.xccl import refusal
from klops.agent.xccl import request as requests
from klops.agent.xccl.ranks import pool as pools
from klops.agent.xccl.work import Emit, Gone, Work

_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def xccl(root: str, package: str, text: str, emit: Emit, gone: Callable[[float], bool]) -> bool:
    """Answer one request; False when nobody reads any more. Raises :class:`VerbError` and ``OSError``.

    ``gone`` tells whether whoever asked is.
    """
    begun = time.monotonic()
    try:
        request = requests.of(json.loads(text))
    except ValueError as error:
        raise VerbError("usage", f"no JSON: {error}", "the request is one JSON object in a line") from error
    present = [os.path.basename(node.path) for node in devices.nodes(request.device_dir) if node.is_card]
    request = request.numbered(present)
    paths = store.Paths(root)
    paths.make()
    audit = Audit(paths.audit, f"xccl {request.run or os.getpid()}", Troubles())
    with _signals() as received, refusal.alone(paths, request.run):
        subreaper.become()  # of ranks that die, too, nothing gets away

        def check() -> None:
            if received:
                name = signal.Signals(received[0]).name
                raise VerbError("interrupted", f"the diagnosis was ended by {name}", "repeat it")
            if gone(0.0):
                raise Gone

        try:
            with _cleaned(paths, audit):
                work = Work(paths, package, request, audit, check, emit, present=present)
                result = work.result(begun)
        except Gone:
            return False
        finally:
            killing.end_children(audit, "left by a diagnosis that is over")
    return emit({"result": result})


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """What would end this process ends the diagnosis first: numbers of the signals that came."""
    received: list[int] = []

    def note(number: int, _: object) -> None:
        received.append(number)

    before = {number: signal.signal(number, note) for number in _ENDING}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _cleaned(paths: store.Paths, audit: Audit) -> Iterator[None]:
    """Begins with nothing of an earlier diagnosis that was killed, and leaves no file."""
    left = killing.end_all(Lineage(paths.ranks), audit, "left by a diagnosis that was killed")
    if left:
        listed = ", ".join(f"pid {one.pid} ({one.name}, state {one.state})" for one in left)
        raise VerbError(
            refusal.CARDS_BUSY,
            f"ranks of an earlier diagnosis outlive KILL: {listed}",
            "they sit in the driver: their cards need a reset, or the host a reboot",
        )
    pools.clear(paths.ranks_folder)
    os.mkdir(paths.ranks_folder, 0o700)
    try:
        yield
    finally:
        pools.clear(paths.ranks_folder)
