"""What a model's files say on how many cards it can be spread over. Pure.

Read from texts as they lie in the model's folder: ``config.json`` and ``model.safetensors.index.json``. What
isn't there or isn't as expected is None: the engine knows more models than are known here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Where models of text and more keep the settings of the text part.
_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
#: Names of the number of attention heads; the first is that of nearly all models.
_ATTENTION = ("num_attention_heads", "n_head", "n_heads")
#: Names of the number of key-value heads, as vLLM asks for them (ModelConfig.get_total_num_kv_heads).
_KEY_VALUE = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num")
_MIB = 1 << 20


def _loaded(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _count(said: dict[str, Any], names: Sequence[str]) -> int | None:
    for name in names:
        value = said.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def heads(config: str) -> tuple[int, int] | None:
    """Attention heads and key-value heads of a model, from its config.json; None when it doesn't say.

    A model without key-value heads of its own has as many as attention heads. One with latent attention
    (``kv_lora_rank``) keeps the same for all heads, so it counts as one. The text part of a model of several
    parts counts: it is the one that is spread.
    """
    said = _loaded(config)
    while True:
        attention = _count(said, _ATTENTION)
        if attention is not None:
            break
        said = next((said[name] for name in _NESTED if isinstance(said.get(name), dict)), {})
        if not said:
            return None
    if _count(said, ("kv_lora_rank",)) is not None or said.get("multi_query") is True:
        return attention, 1
    return attention, _count(said, _KEY_VALUE) or attention


def misfit(counts: tuple[int, int] | None, tp: int) -> str:
    """Why a model with these attention and key-value heads can't be spread over ``tp`` cards, "" if it can.

    The rules of vLLM: attention heads are dealt out evenly (ModelConfig.verify_with_parallel_config);
    key-value heads too, or each is kept by equally many cards (QKVParallelLinear). Heads that aren't known
    rule nothing out.

    >>> misfit((28, 4), 8)
    '8 does not divide the 28 attention heads'
    >>> misfit((64, 8), 8)
    ''
    """
    if counts is None:
        return ""
    attention, key_value = counts
    if attention % tp:
        return f"{tp} does not divide the {attention} attention heads"
    if key_value % tp and tp % key_value:
        return f"{tp} and the {key_value} key-value heads don't divide one another"
    return ""


def weight_bytes(index: str) -> int | None:
    """Bytes of all weights, from model.safetensors.index.json (``metadata.total_size``); None: not said."""
    metadata = _loaded(index).get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    # some tools wrote it as 1.5e10
    if isinstance(size, bool) or not isinstance(size, (int, float)) or not 0 < size < float("inf"):
        return None
    return int(size)


def least_tp(weights: int, free_mib: Sequence[int], share: float) -> int:
    """The least power of two of cards that hold ``weights`` bytes, of which each has an equal part.

    ``free_mib``: free memory of each card in MiB; ``share``: the part of it that the engine may use
    (``--gpu-memory-utilization``). The roomiest cards count, and nothing but the weights, so it is a bound:
    fewer can't hold them, so many may still be too few. More than there are cards when all together don't
    hold them; 1 when no memory is known.
    """
    rooms = sorted(free_mib, reverse=True)
    tp = 1
    while tp <= len(rooms) and weights > tp * rooms[tp - 1] * _MIB * share:
        tp *= 2
    return tp
