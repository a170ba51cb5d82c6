"""Threads that run tasks, in a way that an interrupt ends."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")


class _Busy:
    """Counts jobs that are at work; a context manager for each of them."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def idle(self, seconds: float) -> bool:
        """Whether nothing is at work, at the latest after so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._count == 0, seconds)


class Workers:
    """At most ``forks`` jobs at a time."""

    def __init__(self, forks: int) -> None:
        self.forks = forks
        self._pool = ThreadPoolExecutor(max_workers=forks)
        self._busy = _Busy()
        self._fault: BaseException | None = None

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Have a job done as soon as a thread is free.

        Once a job has raised an exception no other is begun: each that waits raises the same one.
        """

        def work() -> T:
            with self._busy:
                if self._fault is not None:
                    raise self._fault
                try:
                    return job()
                except BaseException as error:
                    self._fault = error
                    raise

        return self._pool.submit(work)

    def done(self, futures: Collection[Future[T]]) -> list[Future[T]]:
        """Those of ``futures`` that are done; waits for the first one."""
        # in short waits: a long one can't be interrupted on Windows, nor when another thread gets the signal
        while True:
            found = wait(futures, timeout=0.5, return_when=FIRST_COMPLETED).done
            if found:
                return list(found)

    def side_by_side(
        self, jobs: Sequence[Callable[[], T]], most: int = 0, *, meanwhile: Callable[[], None] = lambda: None
    ) -> list[T]:
        """What the jobs return, in their order; at most ``most`` at a time (0: as many as there are threads).

        ``meanwhile`` is called while the first of them are at work. The first exception of a job is raised as
        soon as it is known.
        """
        waiting = deque(enumerate(jobs))
        working: dict[Future[T], int] = {}
        found: dict[int, T] = {}
        while waiting or working:
            while waiting and (most <= 0 or len(working) < most):
                place, job = waiting.popleft()
                working[self.submit(job)] = place
            if not found:
                meanwhile()
            for future in self.done(working):
                found[working.pop(future)] = future.result()
        return [found[place] for place in range(len(jobs))]

    def interrupt(self, again: Callable[[], None]) -> None:
        """Begin nothing more, and call ``again`` until no job is at work any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        while not self._busy.idle(0.2):
            again()

    def close(self) -> None:
        """Wait for all jobs; then the threads end."""
        self._pool.shutdown()
