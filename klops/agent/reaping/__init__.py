"""The clean-up: what units have left behind is found by identity and ended; all else is only named."""
