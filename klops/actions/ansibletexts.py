"""Texts that tasks register exactly as Ansible's do: playbooks compare results with them, so they are part of
the interface, as the names of parameters are."""

from __future__ import annotations

#: ``msg`` of a command that ended with another status than 0
NON_ZERO = "non-zero return code"
#: beginning of the ``stdout`` of a task that ``creates`` or ``removes`` made needless; its reason follows
SKIPPED_SINCE = "skipped, since "
#: ``msg`` of assert, unless the task has its own
ASSERTED = "All assertions passed"
NOT_ASSERTED = "Assertion failed"
#: ``msg`` of fail and of debug, unless the task has its own
FAILED = "Failed as requested from task"
HELLO = "Hello world!"
