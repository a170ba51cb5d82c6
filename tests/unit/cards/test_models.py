from __future__ import annotations

import json

import pytest

from klops.cards.choice.models import heads, least_tp, misfit, weight_bytes

GIB = 1 << 30
MIB_OF_96_GIB = 98304


@pytest.mark.parametrize(
    ("config", "counts"),
    [
        ({"num_attention_heads": 64, "num_key_value_heads": 8}, (64, 8)),
        ({"num_attention_heads": 28, "num_key_value_heads": 4}, (28, 4)),
        ({"num_attention_heads": 32}, (32, 32)),
        ({"model_type": "x", "text_config": {"num_attention_heads": 24, "num_key_value_heads": 4}}, (24, 4)),
        (
            {"thinker_config": {"text_config": {"num_attention_heads": 28, "num_key_value_heads": 4}}},
            (28, 4),
        ),
        ({"vision_config": {"num_attention_heads": 16}, "llm_config": {"num_attention_heads": 40}}, (40, 40)),
        # latent attention: one for all heads; Falcon's one for all; ChatGLM's groups; GPT-2's name
        ({"num_attention_heads": 128, "num_key_value_heads": 128, "kv_lora_rank": 512}, (128, 1)),
        ({"num_attention_heads": 71, "multi_query": True}, (71, 1)),
        ({"num_attention_heads": 32, "multi_query_group_num": 2}, (32, 2)),
        ({"n_head": 12}, (12, 12)),
        ({}, None),
        ({"num_attention_heads": "64"}, None),
        ({"num_attention_heads": 0}, None),
        ({"num_attention_heads": True}, None),
        ({"text_config": {"hidden_size": 1}}, None),
        ([64, 8], None),
    ],
)
def test_heads(config: object, counts: tuple[int, int] | None) -> None:
    assert heads(json.dumps(config)) == counts


@pytest.mark.parametrize("text", ["", "{", "null", "<html>", '"64"'])
def test_what_is_no_config_says_nothing(text: str) -> None:
    assert heads(text) is None
    assert weight_bytes(text) is None


@pytest.mark.parametrize(
    ("counts", "fits"),
    [
        ((64, 8), [1, 2, 4, 8, 16, 32, 64]),
        ((28, 4), [1, 2, 4, 28]),
        ((71, 1), [1, 71]),
        ((128, 1), [1, 2, 4, 8, 16, 32, 64, 128]),
        # 6 and 4 don't divide one another
        ((24, 6), [1, 2, 3, 6, 12, 24]),
        (None, list(range(1, 129))),
    ],
)
def test_row_F37_sizes_that_fit_the_heads(counts: tuple[int, int] | None, fits: list[int]) -> None:
    assert [tp for tp in range(1, 129) if not misfit(counts, tp)] == fits


def test_row_F37_why_a_size_does_not_fit() -> None:
    assert misfit((28, 4), 8) == "8 does not divide the 28 attention heads"
    assert misfit((24, 6), 4) == "4 and the 6 key-value heads don't divide one another"


@pytest.mark.parametrize(
    ("metadata", "size"),
    [
        ({"total_size": 15_231_233_024}, 15_231_233_024),
        ({"total_size": 1.5e10}, 15_000_000_000),
        ({"total_size": 0}, None),
        ({"total_size": -1}, None),
        ({"total_size": True}, None),
        ({"total_size": "15"}, None),
        ({"total_size": float("inf")}, None),
        ({"total_size": float("nan")}, None),
        ({}, None),
        (None, None),
    ],
)
def test_weight_bytes(metadata: object, size: int | None) -> None:
    assert weight_bytes(json.dumps({"metadata": metadata, "weight_map": {}})) == size


@pytest.mark.parametrize(
    ("weights", "free", "share", "tp"),
    [
        (20 * GIB, [MIB_OF_96_GIB] * 8, 0.9, 1),
        (86 * GIB, [MIB_OF_96_GIB] * 8, 0.9, 1),
        (87 * GIB, [MIB_OF_96_GIB] * 8, 0.9, 2),
        (200 * GIB, [MIB_OF_96_GIB] * 8, 0.9, 4),
        (400 * GIB, [MIB_OF_96_GIB] * 8, 0.9, 8),
        # more than all hold: more cards than there are
        (700 * GIB, [MIB_OF_96_GIB] * 8, 0.9, 16),
        (150 * GIB, [MIB_OF_96_GIB] * 2, 0.9, 2),
        (180 * GIB, [MIB_OF_96_GIB] * 2, 0.9, 4),
        # one card is half full: two roomy ones do, four would be held back by it
        (100 * GIB, [MIB_OF_96_GIB, MIB_OF_96_GIB, MIB_OF_96_GIB // 2], 0.9, 2),
        (20 * GIB, [0, 0], 0.9, 4),
        (20 * GIB, [], 0.9, 1),
    ],
)
def test_least_tp(weights: int, free: list[int], share: float, tp: int) -> None:
    assert least_tp(weights, free, share) == tp
