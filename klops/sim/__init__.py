"""The rehearsal: hosts on this machine with stand-in cards, xpu-smi and vllm, and faults on request."""
