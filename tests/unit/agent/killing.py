"""A call in a process that is killed on the way: a copy of this one, which takes no time to start."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Sequence
from typing import Any


def forked(
    call: Callable[[], tuple[int, str]], functions: Sequence[tuple[Any, str]], count: int
) -> tuple[int, str]:
    """Status and text that a call gives; -9 when it was killed.

    It gets SIGKILL before any of these functions (a module, and a name in it) is called for the
    so-and-so-many-th time.
    """
    said, told = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that there are threads: the copy has none
        pid = os.fork()
    if pid == 0:
        try:
            _arm(functions, count)
            code, text = call()
            with open(told, "w", encoding="utf-8") as file:  # noqa: PTH123 # a descriptor
                file.write(text)
            os._exit(code)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(99)
    os.close(told)
    with open(said, encoding="utf-8") as file:  # noqa: PTH123 # a descriptor
        text = file.read()
    _, status = os.waitpid(pid, 0)
    return (-os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)), text


def _arm(functions: Sequence[tuple[Any, str]], count: int) -> None:
    left = [count]

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*args: Any, **more: Any) -> Any:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **more)

        return instead

    for module, name in functions:
        setattr(module, name, counted(getattr(module, name)))
