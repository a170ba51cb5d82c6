"""A general plugin of vLLM: each worker opens the card node of its rank, as a worker on a P800 does.

vLLM on the CPU opens no card, so nothing would hold one. It is called in every process of vLLM; only workers,
which set up a device, open something. Idle where no cards were selected.

The load of a tiny model is over at once: where a file ``load-seconds`` lies beside the rehearsal's
faults.json it takes as many seconds as stand there.
"""

# runs inside an environment with vLLM, which this one has not
# mypy: disable-error-code="import-not-found"

import os
import time
from pathlib import Path
from typing import Any

VISIBLE = ("XPU_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "XPULINK_VISIBLE_DEVICES")


def node_of(rank: int) -> Path | None:
    """The node of a rank: visible numbers count the nodes that are there; None when no card was selected."""
    visible = next((os.environ[name] for name in VISIBLE if os.environ.get(name)), "")
    if not visible:
        return None
    numbers = sorted(int(p.name[3:]) for p in Path("/dev").glob("xpu*") if p.name[3:].isdigit())
    return Path(f"/dev/xpu{numbers[int(visible.split(',')[rank])]}")


def load_seconds() -> float:
    """How long a load has to take at least."""
    faults = os.environ.get("KLOPS_SIM_FAULTS", "")
    try:
        return float(Path(faults).with_name("load-seconds").read_text(encoding="ascii")) if faults else 0.0
    except FileNotFoundError:
        return 0.0


def register() -> None:
    """Called by vLLM in each of its processes, and more than once in some."""
    from vllm.v1.worker.cpu_worker import CPUWorker

    if getattr(CPUWorker, "klops_opens_cards", False):
        return
    CPUWorker.klops_opens_cards = True
    init_device = CPUWorker.init_device

    def init_and_open(self: Any, *args: Any, **kwargs: Any) -> Any:
        node = node_of(self.local_rank)
        if node is not None:
            for path in (node, Path("/dev/xpuctrl")):
                os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)  # kept open until the worker ends
        return init_device(self, *args, **kwargs)

    load_model = CPUWorker.load_model

    def load_slowly(self: Any, *args: Any, **kwargs: Any) -> Any:
        time.sleep(load_seconds())
        return load_model(self, *args, **kwargs)

    CPUWorker.init_device = init_and_open
    CPUWorker.load_model = load_slowly
