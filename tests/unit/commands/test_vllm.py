from __future__ import annotations

from klops.commands.vllm import serve_argv


def test_own_flags_first_then_the_users_in_their_order() -> None:
    argv = serve_argv(
        "/models/a b",
        port=8001,
        served_name="qwen",
        tp=4,
        args={
            "max-model-len": "262144",
            "enable-chunked-prefill": True,
            "no-prefix": False,
            "nothing": None,
            "gpu-memory-utilization": 0.75,
            "lora-modules": ["a=/x", "b=/y"],
            "empty": [],
            "json": '{"a": 1}',
        },
    )
    own = "--host 0.0.0.0 --port 8001 --served-model-name qwen --tensor-parallel-size 4"
    assert argv == (
        "vllm", "serve", "/models/a b", *own.split(),
        "--max-model-len", "262144", "--enable-chunked-prefill", "--gpu-memory-utilization", "0.75",
        "--lora-modules", "a=/x", "b=/y", "--json", '{"a": 1}',
    )  # fmt: skip
