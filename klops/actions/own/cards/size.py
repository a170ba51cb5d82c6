"""How a run may say into how many parts models are cut."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

#: Tensor parallelism of a run: a number, ``auto``, or None for what the settings say.
Size = Literal["auto"] | Annotated[int, Field(ge=1, le=256)] | None
