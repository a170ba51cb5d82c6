"""Which vllm a rehearsal host serves with: the stand-in, or a real one on the CPU."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from klops.errors import UsageError

#: Where the models of a host are in its container.
MODELS = "/models"
#: 32 heads: every number of cards that a P800 host has divides them.
STANDIN_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "num_hidden_layers": 2,
}


@dataclass(frozen=True)
class Vllm:
    """What an inventory must say of it. ``folders`` are mounted into the container, read-only."""

    kind: str
    python: str
    model: str
    models: Path | None = None  # None: each host has its own
    tp: str | int = "auto"
    cards: tuple[int, ...] | None = None
    args: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    start_timeout: int = 60


def standin() -> Vllm:
    """The stand-in, on all cards."""
    return Vllm("standin", sys.executable, f"{MODELS}/stand-in", args={"max-model-len": 4096})


def real() -> Vllm:
    """A real vLLM with tensor parallelism 2: program ``$KLOPS_VLLM_BIN``, model ``$KLOPS_VLLM_MODEL``.

    Raises :class:`UsageError` when one of them isn't there.
    """
    program, model = os.environ.get("KLOPS_VLLM_BIN", ""), os.environ.get("KLOPS_VLLM_MODEL", "")
    if not program or not os.access(program, os.X_OK):
        raise UsageError(
            f"no real vllm at {program or '$KLOPS_VLLM_BIN'}",
            hint="tests/host/real_vllm/setup-env of the source tree builds one and prints what to export",
        )
    if not model or not (Path(model) / "config.json").is_file():
        raise UsageError(f"no model at {model or '$KLOPS_VLLM_MODEL'}", hint="a folder with config.json")
    binaries = Path(program).absolute().parent
    python = binaries / "python"
    home = python.resolve().parent.parent
    model_dir = Path(model).resolve()
    return Vllm(
        "real",
        str(python),
        f"{MODELS}/{model_dir.name}",
        models=model_dir.parent,
        tp=2,
        cards=(0, 1),
        args={
            "max-model-len": 256,
            "max-num-seqs": 4,
            "dtype": "bfloat16",
            "enforce-eager": True,
        },
        env={
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "1",
            "VLLM_HOST_IP": "127.0.0.1",
            "GLOO_SOCKET_IFNAME": "lo",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
        },
        folders=(str(binaries.parent), str(home)),
        start_timeout=600,
    )


def choose(kind: str) -> Vllm:
    """``standin`` or ``real``."""
    if kind not in ("standin", "real"):
        raise UsageError(f"unknown vllm {kind!r}", hint="standin or real")
    return standin() if kind == "standin" else real()


def write_standin_model(folder: Path) -> None:
    """What the stand-in takes for a model: a config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(STANDIN_CONFIG, indent=1) + "\n", encoding="utf-8")
