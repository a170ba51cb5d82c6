"""Whether requests progress, as a table of readings; what vLLM of several versions prints; and in words."""

from __future__ import annotations

from typing import Any

import pytest

from klops.agent.units import progress
from klops.agent.units.progress import IDLE, MOVING, STALLED, UNKNOWN, Counters, Track, Verdict

#: vLLM 0.32 with tensor parallelism 2, cut to a few lines.
PRINTED = """\
# HELP python_gc_objects_collected_total Objects collected during gc
# TYPE python_gc_objects_collected_total counter
python_gc_objects_collected_total{generation="0"} 14225.0
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 2.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 1.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
vllm:prompt_tokens_total{engine="0",model_name="tiny"} 26.0
vllm:prompt_tokens_created{engine="0",model_name="tiny"} 1.796036e+09
vllm:generation_tokens_total{engine="0",model_name="tiny"} 32.0
vllm:generation_tokens_created{engine="0",model_name="tiny"} 1.796036e+09
vllm:request_success_total{engine="0",finished_reason="stop",model_name="tiny"} 0.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"} 2.0
vllm:iteration_tokens_total_sum{engine="0",model_name="tiny"} 58.0
vllm:request_generation_tokens_sum{engine="0",model_name="tiny"} 32.0
"""


def test_the_counters_of_a_real_page() -> None:
    found = progress.read(PRINTED)
    assert found == Counters(running=2, waiting=1, generated=32, marks=(26, 2, 0, 0, 0.25, 0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('vllm:num_requests_running{m="a"} 1\nvllm:generation_tokens_total{m="a"} 5\n', (1, 0, 5)),
        ("vllm_num_requests_running 1\nvllm_generation_tokens 5\n", (1, 0, 5)),
        ('vllm:num_requests_running{m="a } b \\"x"} 1 1796036\nvllm:generation_tokens_total 5\n', (1, 0, 5)),
        (
            "".join(
                f'vllm:num_requests_running{{engine="{n}"}} {n}\n'
                f'vllm:num_requests_swapped{{engine="{n}"}} 1\n'
                f'vllm:generation_tokens_total{{engine="{n}"}} 10\n'
                for n in range(3)
            ),
            (3, 3, 30),
        ),
    ],
    ids=["old", "no labels", "odd labels and a time", "three engines"],
)
def test_names_and_labels_differ_by_version(text: str, expected: tuple[float, ...]) -> None:
    found = progress.read(text)
    assert found is not None
    assert found[:3] == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html>not found</html>",
        "sglang:num_running_reqs 1\n",
        "vllm:num_requests_running 1\n",
        "vllm:num_requests_running one\nvllm:generation_tokens_total 1\n",
        "vllm:num_requests_running NaN\nvllm:generation_tokens_total 1\n",
        "vllm:num_requests_running\nvllm:generation_tokens_total 1\n",
    ],
)
def test_what_can_not_be_told_is_unknown(text: str) -> None:
    assert progress.read(text) is None


def at(running: float, generated: float, *marks: float, waiting: float = 0) -> Counters:
    """A reading."""
    return Counters(running, waiting, generated, marks)


SERIES: dict[str, list[tuple[float, Counters | None, str]]] = {
    # second, reading, verdict; 120 seconds without any movement count as stalled
    "idle for ever": [(0, at(0, 9), IDLE), (1e6, at(0, 9), IDLE)],
    "busy and moving": [(0, at(1, 9), UNKNOWN), (5, at(1, 10), MOVING), (1e6, at(1, 11), MOVING)],
    "busy at the first look: nothing is known yet": [(0, at(1, 9), UNKNOWN), (119, at(1, 9), UNKNOWN)],
    "busy and never seen to move": [(0, at(1, 9), UNKNOWN), (120, at(1, 9), STALLED)],
    "moved, then stalls, then moves": [
        (0, at(1, 9), UNKNOWN),
        (5, at(1, 10), MOVING),
        (124, at(1, 10), MOVING),
        (125, at(1, 10), STALLED),
        (130, at(1, 11), MOVING),
    ],
    "only waiting ones count as well": [
        (0, at(0, 9, waiting=3), UNKNOWN),
        (120, at(0, 9, waiting=3), STALLED),
    ],
    "more requests are no movement": [
        (0, at(1, 9), UNKNOWN),
        (60, at(2, 9), UNKNOWN),
        (120, at(3, 9), STALLED),
    ],
    "a long prompt fills the KV cache": [
        (0, at(1, 9, 0.1), UNKNOWN),
        (100, at(1, 9, 0.2), MOVING),
        (200, at(1, 9, 0.3), MOVING),
    ],
    "a reading is missing in a stall": [
        (0, at(1, 9), UNKNOWN),
        (60, None, UNKNOWN),
        (120, at(1, 9), STALLED),
    ],
    "none could be had for long, and then there is a new request": [
        (0, at(0, 9), IDLE),
        (5, None, UNKNOWN),
        (500, at(1, 9), MOVING),
        (619, at(1, 9), MOVING),
        (620, at(1, 9), STALLED),
    ],
    "no /metrics at all": [(0, None, UNKNOWN), (1e6, None, UNKNOWN)],
    "restarted counters are movement": [(0, at(1, 9), UNKNOWN), (200, at(1, 2), MOVING)],
}


@pytest.mark.parametrize("name", SERIES)
def test_series(name: str) -> None:
    track: Track | None = None
    for now, reading, kind in SERIES[name]:
        track, verdict = progress.judge(track, reading, 1000.0 + now, 120.0)
        assert (now, verdict.kind) == (now, kind)
        assert verdict.live is {IDLE: True, MOVING: True, STALLED: False, UNKNOWN: None}[kind]


@pytest.mark.parametrize(
    ("step", "running", "slow"),
    [(4.89, 1, True), (4.89, 8, True), (0.05, 1, False), (0.2, 256, False)],
    ids=["P1, one request", "P1, eight", "fast", "many"],
)
def test_the_pace_is_seconds_a_token_of_one_request(step: float, running: int, slow: bool) -> None:
    track: Track | None = None
    verdict = Verdict(UNKNOWN)
    for now in range(0, 130, 5):
        steps = int(now / step)
        track, verdict = progress.judge(track, at(running, steps * running), 1000.0 + now, 120.0)
        assert verdict.token is None or now >= progress.PACE_WINDOW
    assert verdict.token == pytest.approx(step, rel=0.1)
    assert verdict.slow is slow
    assert track is not None
    assert len(track.recent) <= 15, "no more is kept than the window needs"


STALL = Verdict(STALLED, 130.0)
CRAWL = Verdict(MOVING, 0.0, 4.9)
WHAT = "no request progresses: 2 running and 1 waiting, and nothing in /metrics has moved for 130 s"


@pytest.mark.parametrize(
    ("verdict", "cards", "said"),
    [
        (STALL, None, f"{WHAT}; whether its cards work meanwhile isn't known"),
        (STALL, [0, 97], f"{WHAT}; its cards are at 0/97 %"),
        (STALL, [0, 1], f"{WHAT} while its cards are at 0/1 %: problem P1"),
        (CRAWL, [0, 1], "a token takes a request 4.9 s while its cards are at 0/1 %: problem P1"),
        (CRAWL, [99, 98], ""),
        (CRAWL, None, ""),
        (Verdict(MOVING, 0.0, 0.1), [0, 0], ""),
        (Verdict(IDLE), [0, 0], ""),
        (Verdict(UNKNOWN), None, ""),
    ],
)
def test_what_is_said(verdict: Verdict, cards: Any, said: str) -> None:
    text = progress.describe(verdict, at(2, 9, waiting=1), cards)
    assert text.startswith(said) if said else text == ""
    assert progress.is_p1(verdict, cards) is ("P1" in text)
