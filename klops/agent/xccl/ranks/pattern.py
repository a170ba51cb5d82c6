"""The values that ranks add up, chosen so that every sum is exact in float32 and each round has its own.

base[i] = i mod 251, a prime: no piece of a message that a library cuts at a power of two looks like another.
Rank r puts base * (r + 1) + k into round k, so that the sum is base * (1 + ... + n) + k * n: whole numbers,
for 16 ranks below 40000, where float32 has all whole numbers up to 2**24.
"""

from __future__ import annotations

from typing import Any

MODULUS = 251.0
#: Bytes of a float32.
ITEM = 4


def base(torch: Any, count: int, device: Any) -> Any:
    """The pattern, ``count`` numbers."""
    return torch.remainder(torch.arange(count, device=device, dtype=torch.float32), MODULUS)


def share(pattern: Any, rank: int, turn: int) -> Any:
    """What a rank puts into a round; ``turn`` may be negative, as those of warm-ups are."""
    return pattern * (rank + 1) + turn


def total(pattern: Any, world: int, turn: int) -> Any:
    """What every rank has to have after it."""
    return pattern * (world * (world + 1) // 2) + turn * world


def differences(found: Any, expected: Any) -> int:
    """How many numbers are not as they should be; what is no number is none of them."""
    return int((found != expected).sum().item())


def nans(torch: Any, found: Any) -> int:
    """How many are no number."""
    return int(torch.isnan(found).sum().item())
