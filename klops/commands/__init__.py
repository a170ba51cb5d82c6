"""Pure builders of argv and readers of output: docker, xpu-smi, vllm, ls. No I/O."""
