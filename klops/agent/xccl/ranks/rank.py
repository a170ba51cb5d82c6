"""A rank's own program: it has one card, and does what it is asked until whoever asks is gone.

It is started as the agent's package with the verb ``rank``: a real file, as libraries that start helpers of
their own run the main file anew in these, and one Python finds compiled modules beside. Without ``-I`` and
``-S``: torch lies in the image's site-packages, and its paths are the image's to set.

It says ``stage`` as it goes, ``ready`` once it has its card, ``size`` for each size that is done, ``error``
for what was raised, and ``idle`` when it can be asked again.
"""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import faulthandler
import importlib
import json
import os
import select
import signal
import stat
import threading
import time
from typing import Any, Callable, Mapping

from klops.agent.xccl.ranks import pattern, wire
from klops.cards.xccl.results import ALLOCATE, CHECK, COLLECTIVE, INIT, START

_PR_SET_PDEATHSIG = 1
#: Seconds of work after which it says that it is still at it.
_BEAT = 1.0
#: Numbers of the first fill, which shows whether the card does anything at all: 4 sufficed on a bad one.
_FIRST = 4096
GLOO = "gloo"


def main() -> int:
    """Until the pipe that it is asked on has no other end; it ends at once then, whatever it is at."""
    with contextlib.suppress(OSError):
        os.setsid()
    _end_with_parent()
    for fd in (wire.ASK, wire.TELL):
        os.set_inheritable(fd, False)
    faulthandler.enable()  # what a crash was in is said in the log
    threading.Thread(target=_watch, daemon=True).start()
    asked = os.fdopen(wire.ASK, "rb", closefd=False)
    # whoever started it writes down first that it is there: nothing is opened before
    begin = asked.readline()
    if not begin.endswith(b"\n"):
        return 0
    worker = Worker(json.loads(begin), _tell)
    if worker.attempt(worker.prepare):
        for request in asked:
            told = json.loads(request)
            work = worker.single if told["do"] == "single" else worker.group
            worker.attempt(lambda told=told, work=work: work(told))  # type: ignore[misc]
            _tell({"idle": True})
    else:
        asked.read()  # it is ended by who asked
    return 0


def _end_with_parent() -> None:
    """Whatever ends whoever started it ends it too, also where it is stuck in a call that never returns."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _watch() -> None:
    """End when nobody can ask any more. At once: hooks at the end may wait for the card for ever."""
    poll = select.poll()
    poll.register(wire.ASK, 0)
    poll.poll()
    os._exit(0)


def _tell(message: Mapping[str, Any]) -> None:
    data = wire.line(message)
    with contextlib.suppress(BrokenPipeError):
        while data:
            data = data[os.write(wire.TELL, data) :]


def described(error: BaseException) -> str:
    """An exception in one line: its kind and the first line of what it says."""
    lines = [text.strip() for text in str(error).splitlines() if text.strip()]
    return f"{type(error).__name__}: {lines[0][:500]}" if lines else type(error).__name__


class _Tally:
    """What the rounds of one size came to."""

    def __init__(self, size: int, warmups: int) -> None:
        self._size = size
        self._warmups = warmups
        #: microseconds of each round, those of warm-ups too
        self.times: list[float] = []
        #: numbers of the rounds with a value that is not as it should be, and with one that is no number
        self.wrong: list[int] = []
        self.nan: list[int] = []

    def told(self) -> dict[str, Any]:
        """The message on it."""
        measured = [round(one, 1) for one in self.times[self._warmups :]]
        return {"size": self._size, "us": measured, "wrong": self.wrong, "nan": self.nan}


class Worker:
    """Does what is asked with one card."""

    def __init__(self, begin: Mapping[str, Any], tell: Callable[[Mapping[str, Any]], None]) -> None:
        """``begin``: ``{place, backend: auto|nccl|gloo, device_dir}``."""
        self._place = int(begin["place"])
        self._backend = str(begin["backend"])
        self._folder = str(begin["device_dir"])
        self._send = tell
        self._said = time.monotonic()
        self._stage = START
        self._torch: Any = None
        self._device: Any = None
        self._cuda = False
        #: kept, so that the card stays in use between tests
        self._card: Any = None

    def attempt(self, what: Callable[[], None]) -> bool:
        """Do it; what it raises is told. Whether it was done."""
        try:
            what()
        except (Exception, SystemExit) as error:
            lacking = isinstance(error, ModuleNotFoundError) and error.name == "torch"
            now = time.monotonic()
            told = {"error": described(error), "stage": self._stage, "at": now, "waited": now - self._said}
            self._tell({**told, **({"no_torch": True} if lacking else {})})
            # what holds the group, or a tensor, is in the frames of the exception
            self._leave()
            return False
        return True

    def _tell(self, message: Mapping[str, Any]) -> None:
        self._said = time.monotonic()
        self._send(message)

    def _at(self, stage: str) -> None:
        self._stage = stage
        self._tell({"stage": stage})

    def _beat(self) -> None:
        if time.monotonic() - self._said > _BEAT:
            self._tell({"beat": True})

    def prepare(self) -> None:
        """Find torch, take the card, and fill a little of it."""
        self._at(START)
        # several on one machine: a thread a core for each of them would only wait for the others
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        # all ranks are of one machine, whose name need not be known to anybody
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        self._torch = torch = importlib.import_module("torch")
        importlib.import_module("torch.distributed")
        self._at(ALLOCATE)
        self._cuda = self._backend != GLOO and bool(torch.cuda.is_available())
        if self._backend == "auto":
            self._backend = "nccl" if self._cuda else GLOO
        elif self._backend != GLOO and not self._cuda:
            raise RuntimeError(f"backend {self._backend} was asked for, and torch sees no card")
        if self._cuda:
            torch.cuda.set_device(self._place)
        self._device = torch.device(f"cuda:{self._place}" if self._cuda else "cpu")
        self._card = pattern.base(torch, _FIRST, self._device)
        self._synchronise()
        wrong = pattern.differences(self._card.cpu(), pattern.base(torch, _FIRST, torch.device("cpu")))
        if wrong:
            self._stage = CHECK
            raise RuntimeError(f"{wrong} of {_FIRST} numbers that were just filled in are wrong")
        self._tell(
            {
                "ready": True,
                "torch": str(torch.__version__),
                "device": "cuda" if self._cuda else "cpu",
                "backend": self._backend,
                "nodes": opened_below(self._folder),
                # set by the import of a runtime's hook for one exact list of cards (p800.md 3.1)
                "device_order": os.environ.get("CUDA_DEVICE_ORDER", ""),
            }
        )

    def _synchronise(self) -> None:
        if self._cuda:
            self._torch.cuda.synchronize()

    def single(self, asked: Mapping[str, Any]) -> None:
        """``{sizes, rounds, warmups}``: fill, synchronise, read back, compare on the other side."""
        torch = self._torch
        for size in asked["sizes"]:
            self._at(ALLOCATE)
            count = max(1, int(size) // pattern.ITEM)
            expected = pattern.base(torch, count, torch.device("cpu"))
            tally = _Tally(int(size), int(asked["warmups"]))
            for turn in range(-int(asked["warmups"]), int(asked["rounds"])):
                self._stage = ALLOCATE
                begun = time.perf_counter()
                filled = pattern.base(torch, count, self._device)
                self._synchronise()
                found = filled.cpu()
                tally.times.append((time.perf_counter() - begun) * 1e6)
                self._check(found, expected, turn, tally)
            self._tell(tally.told())

    def group(self, asked: Mapping[str, Any]) -> None:
        """``{store, rank, world, timeout, sizes, rounds, warmups}``: form the group, add up, leave it.

        All ranks begin a round together. Its clock runs from one synchronised state to the next on this rank;
        whoever asked takes the slowest of them. Not events of the device: those say 0 on a P800
        (torch.cuda.Event).
        """
        torch, dist = self._torch, self._torch.distributed
        patience = datetime.timedelta(seconds=float(asked["timeout"]))
        rank, world = int(asked["rank"]), int(asked["world"])
        self._at(INIT)
        # not a TCPStore: that asks for names of addresses, needs a port, and stalls where nobody answers
        store = dist.FileStore(str(asked["store"]), world)
        store.set_timeout(patience)
        dist.init_process_group(
            backend=self._backend, store=store, rank=rank, world_size=world, timeout=patience
        )
        if self._backend != GLOO:
            # these only connect when there is something to send: what goes wrong in that is of this stage.
            # What lies on this rank's own card says which that is: a barrier takes the card of what was sent
            # before, and with nothing sent the one that has the rank's number (ProcessGroupNCCL::barrier)
            dist.all_reduce(torch.full((1,), 0.0, device=self._device))
            self._synchronise()
        for size in asked["sizes"]:
            self._at(COLLECTIVE)
            pieces = pattern.base(torch, max(1, int(size) // pattern.ITEM), self._device)
            tally = _Tally(int(size), int(asked["warmups"]))
            for turn in range(-int(asked["warmups"]), int(asked["rounds"])):
                self._stage = COLLECTIVE
                summed = pattern.share(pieces, rank, turn)
                # ranks come here one after another: that is not to be time of the collective
                dist.barrier()
                self._synchronise()
                begun = time.perf_counter()
                dist.all_reduce(summed)
                self._synchronise()
                tally.times.append((time.perf_counter() - begun) * 1e6)
                self._check(summed, pattern.total(pieces, world, turn), turn, tally)
            self._tell(tally.told())
        self._leave()

    def _check(self, found: Any, expected: Any, turn: int, tally: _Tally) -> None:
        self._stage = CHECK
        if pattern.differences(found, expected):
            tally.wrong.append(turn)
            if pattern.nans(self._torch, found):
                tally.nan.append(turn)
        self._beat()

    def _leave(self) -> None:
        """Dissolve the group, if there is one, so that the next one can be formed in this process."""
        if self._torch is None:
            return
        distributed = self._torch.distributed
        with contextlib.suppress(Exception):
            distributed.destroy_process_group()
        # a group whose forming fails leaves this one too high, and no later group finds its partners
        with contextlib.suppress(Exception):
            distributed.distributed_c10d._world.group_count = 0


def opened_below(folder: str) -> list[int]:
    """Device numbers of the card nodes in a folder that this process has open."""
    numbers = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one that lists them is gone by now
            status = os.stat(f"/proc/self/fd/{name}")
            if stat.S_ISCHR(status.st_mode):
                numbers.add(status.st_rdev)
    from klops.agent.processes import devices

    return sorted(node.rdev for node in devices.nodes(folder) if node.is_card and node.rdev in numbers)
