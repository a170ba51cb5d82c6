"""Rehearsal hosts for the tests of this folder."""

from tests.rehearsals import make_rehearsal, real_vllm, rehearsal

__all__ = ["make_rehearsal", "real_vllm", "rehearsal"]
