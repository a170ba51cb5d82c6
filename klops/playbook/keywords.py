"""Keywords of plays and tasks: those that klops knows, and Ansible's others, which are refused by name."""

from __future__ import annotations

from collections.abc import Set

from klops.playbook.nodes import Mistakes
from klops.yamlsource import MappingNode, nearest

PLAY_KEYWORDS = frozenset(["name", "hosts", "vars", "tasks", "handlers", "tags", "gather_facts", "become"])
TASK_KEYWORDS = frozenset(
    ["name", "args", "vars", "when", "register", "loop", "tags", "notify", "check_mode", "no_log"]
)

_BOTH = (
    "any_errors_fatal become_exe become_flags become_method become_user check_mode collections connection "
    "debugger diff environment ignore_errors ignore_unreachable module_defaults no_log port remote_user "
    "run_once throttle timeout"
)
_PLAY_ONLY = (
    "fact_path force_handlers gather_subset gather_timeout max_fail_percentage order post_tasks pre_tasks "
    "roles serial strategy vars_files vars_prompt validate_argspec"
)
_TASK_ONLY = (
    "action always async become block changed_when delay delegate_facts delegate_to failed_when "
    "first_found listen local_action loop_control poll rescue retries until"
)
#: Ansible 2.19's keywords that klops lacks, of plays and of tasks
_ANSIBLE_PLAY = frozenset(f"{_BOTH} {_PLAY_ONLY}".split())
_ANSIBLE_TASK = frozenset(f"{_BOTH} {_TASK_ONLY}".split())
_INSTEAD = {
    "become": "set become on the play",
    "roles": "list the tasks in the play",
    "action": "write the module's name as the key",
}


def not_supported(word: str, what: str) -> str:
    """The hint for a keyword of Ansible's that klops lacks; "" when it is none of Ansible's either.

    ``what`` is "play" or "task".
    """
    known = _ANSIBLE_PLAY if what == "play" else _ANSIBLE_TASK
    supported = PLAY_KEYWORDS if what == "play" else TASK_KEYWORDS
    if word.startswith("with_") and what == "task":
        return "write it as loop"
    if word not in known or word in supported:
        return ""
    if word in _INSTEAD:
        return _INSTEAD[word]
    near = nearest(word, supported)
    return f"the nearest that is supported: {near}" if near else f"supported: {', '.join(sorted(supported))}"


def refuse_unknown(node: MappingNode, supported: Set[str], what: str, mistakes: Mistakes) -> None:
    """Note every key that isn't a supported keyword of a ``what``."""
    for key, _ in node.entries:
        if key.text in supported:
            continue
        hint = not_supported(key.text, what)
        if hint:
            mistakes.add(key.location, f"{key.text} on a {what} is not supported yet", hint)
            continue
        near = nearest(key.text, supported)
        hint = f"did you mean {near}?" if near else f"a {what} has: {', '.join(sorted(supported))}"
        mistakes.add(key.location, f"{key.text!r} is no keyword of a {what}", hint)
