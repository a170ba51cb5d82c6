"""Jobs side by side."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from klops.playbook.plays.workers import Workers


def test_results_come_in_the_order_of_the_jobs() -> None:
    workers = Workers(3)
    second_done = threading.Event()

    def first() -> int:
        assert second_done.wait(20)
        return 1

    def second() -> int:
        second_done.set()
        return 2

    assert workers.side_by_side([first, second, lambda: 3]) == [1, 2, 3]
    workers.close()


def test_at_most_so_many_at_a_time() -> None:
    workers = Workers(8)
    at_work = threading.Semaphore(2)

    def job(number: int) -> int:
        assert at_work.acquire(blocking=False)
        at_work.release()
        return number

    def pairs(number: int) -> int:
        # two meet, and a third would find the semaphore empty
        assert at_work.acquire(blocking=False)
        met.wait(20)
        at_work.release()
        met.wait(20)
        return number

    met = threading.Barrier(2)
    assert workers.side_by_side([partial(pairs, number) for number in range(6)], 2) == list(range(6))
    assert workers.side_by_side([partial(job, number) for number in range(3)], 1) == [0, 1, 2]
    workers.close()


def test_an_exception_of_a_job_is_raised() -> None:
    workers = Workers(2)
    with pytest.raises(ZeroDivisionError):
        workers.side_by_side([lambda: 1, lambda: 1 // 0])
    workers.close()


def test_after_an_exception_nothing_more_is_begun() -> None:
    workers = Workers(1)
    begun: list[int] = []

    def job(number: int) -> None:
        begun.append(number)
        if number == 1:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        workers.side_by_side([partial(job, number) for number in range(50)])
    workers.close()
    assert begun == [0, 1]


def test_an_interrupt_begins_nothing_more_and_waits_for_what_is_at_work() -> None:
    workers = Workers(1)
    begun, end = threading.Event(), threading.Event()
    ran: list[str] = []

    def job() -> None:
        begun.set()
        end.wait(20)
        ran.append("first")

    futures = [workers.submit(job), workers.submit(lambda: ran.append("second"))]
    assert begun.wait(20)
    workers.interrupt(end.set)
    workers.close()
    assert ran == ["first"]
    assert futures[1].cancelled()
