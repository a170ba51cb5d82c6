"""The laboratory of the session, both tools in it, and Ansible running ahead of the tests."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.oracle.case import Case
from tests.oracle.forks import Forks
from tests.oracle.lab import ANSIBLE, Lab, open_lab
from tests.oracle.sides import Seen, run_ansible, run_klops


@pytest.fixture(scope="package")
def lab() -> Iterator[Lab]:
    """Scratch folders, inventories and the environment."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("scratch hosts need root on Linux")
    if importlib.util.find_spec("ansible") is None:
        pytest.skip("ansible-core is not installed: pip install '.[oracle]'")
    with open_lab() as lab:
        yield lab


@pytest.fixture(scope="package")
def klops(lab: Lab) -> Iterator[Callable[..., Seen]]:
    """Runs klops: ``klops(case, check=, fresh=)``."""
    with Forks("klops", lab.env) as forks:
        yield functools.partial(run_klops, lab, forks)


@pytest.fixture(scope="package")
def ansible(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Callable[[Case], Seen]]:
    """What Ansible made of a case. It runs all cases that were asked for, ahead of the tests."""
    wanted: dict[str, Case] = {}
    for item in request.session.items:
        case = getattr(item, "callspec", None) and item.callspec.params.get("case")  # type: ignore[attr-defined]
        if isinstance(case, Case) and "ansible" in getattr(item, "fixturenames", ()):
            wanted.setdefault(case.name, case)
    with Forks("ansible", {**ANSIBLE, **lab.env}) as forks, ThreadPoolExecutor(1) as pool:
        runs: dict[str, Future[Seen]] = {
            name: pool.submit(run_ansible, lab, forks, case) for name, case in wanted.items()
        }
        yield lambda case: runs[case.name].result()
        pool.shutdown(cancel_futures=True)
