"""The command line of ``vllm serve``. Secrets have no place in it: they travel as environment of the unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: The service is for other machines: behind host networking that means every address of the host.
LISTEN = "0.0.0.0"  # noqa: S104 - meant: the key protects it, and the field's own scripts do the same


def serve_argv(
    model: str, *, port: int, served_name: str, tp: int, args: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """``vllm serve MODEL`` with klops' own flags first, then ``args`` in their order.

    ``args`` maps flags without dashes to values: true is a bare flag, false and None leave it out, a list is
    several values after one flag.
    """
    argv = [
        "vllm",
        "serve",
        model,
        "--host",
        LISTEN,
        "--port",
        str(port),
        "--served-model-name",
        served_name,
        "--tensor-parallel-size",
        str(tp),
    ]
    for flag, value in (args or {}).items():
        argv += _flag(flag, value)
    return tuple(argv)


def _flag(flag: str, value: Any) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{flag}"]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [f"--{flag}", *(str(item) for item in value)] if value else []
    return [f"--{flag}", str(value)]
