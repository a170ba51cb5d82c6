"""The table of keywords: where each may stand, whether it means what Ansible means, and what else to write.

The loader, the JSON schema and the documents are made from this one table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from klops.playbook.load.nodes import Mistakes
from klops.yamlsource import MappingNode, nearest


class Place(str, Enum):
    """What a mapping of keywords describes."""

    PLAY = "play"
    BLOCK = "block"
    TASK = "task"
    HANDLER = "handler"
    IMPORT_TASKS = "import_tasks"
    INCLUDE_TASKS = "include_tasks"
    #: ``apply`` of an ``include_tasks``
    APPLY = "apply"
    IMPORT_PLAYBOOK = "import_playbook"


class Verdict(str, Enum):
    """How a keyword compares with Ansible's."""

    SAME = "same"
    DIFFERENT = "different"
    REFUSED = "refused"


@dataclass(frozen=True)
class Keyword:
    """One keyword. ``kind`` says what values it takes (see ``schemakinds``); "" for one that is refused.

    ``note`` is what it does, or for one that is refused what to write instead.
    """

    name: str
    places: frozenset[Place]
    verdict: Verdict
    kind: str
    note: str


_P, _B, _T, _H = Place.PLAY, Place.BLOCK, Place.TASK, Place.HANDLER
_I, _N, _A, _L = Place.IMPORT_TASKS, Place.INCLUDE_TASKS, Place.APPLY, Place.IMPORT_PLAYBOOK
_TASKS = (_T, _H)
#: what hands its keywords down to the tasks within it, and these themselves
_INHERITED = (_P, _B, *_TASKS, _I, _A)
#: the same but for plays
_BELOW_PLAYS = (_B, *_TASKS, _I, _A)
_ALL = tuple(Place)


def _same(name: str, places: Iterable[Place], kind: str, note: str) -> Keyword:
    return Keyword(name, frozenset(places), Verdict.SAME, kind, note)


def _differs(name: str, places: Iterable[Place], kind: str, note: str) -> Keyword:
    return Keyword(name, frozenset(places), Verdict.DIFFERENT, kind, note)


def _refused(names: str, places: Iterable[Place], instead: str) -> list[Keyword]:
    return [Keyword(name, frozenset(places), Verdict.REFUSED, "", instead) for name in names.split()]


_CONNECTION = "a connection is described in the inventory"
TABLE: tuple[Keyword, ...] = (
    # plays
    _same("hosts", [_P], "patterns", "patterns of hosts and groups; never empty"),
    _same("pre_tasks", [_P], "tasks", "tasks that run first, and then the handlers they notified"),
    _same("tasks", [_P], "tasks", "the tasks, and then the handlers they notified"),
    _same("post_tasks", [_P], "tasks", "tasks that run last, and then the handlers they notified"),
    _same(
        "handlers", [_P], "handlers", "tasks that run when they are notified, in the order they stand here"
    ),
    _same(
        "vars_files", [_P], "vars_files", "files of variables; of a list within the list the first there is"
    ),
    _differs(
        "gather_facts", [_P], "bool_or_template", "either is fine: facts are read when a task asks for one"
    ),
    _same("serial", [_P], "serial", 'how many hosts at a time: a number, "30%", or a list of them'),
    _same("max_fail_percentage", [_P], "percentage", "the play ends when more hosts of a batch have failed"),
    _differs("strategy", [_P], "strategy", "linear or free"),
    _same("order", [_P], "order", "in which order hosts are taken"),
    _same("force_handlers", [_P], "bool", "notified handlers run on hosts that failed, too"),
    *_refused(
        "roles",
        [_P],
        "list the tasks in the play, or import_tasks a file of them: roles/NAME/tasks/main.yml in tasks, "
        "roles/NAME/handlers/main.yml in handlers; its defaults/main.yml and vars/main.yml go into "
        "vars_files",
    ),
    *_refused(
        "vars_prompt", [_P], "give the value with -e NAME=VALUE; a secret as {env: NAME} in the inventory"
    ),
    *_refused(
        "gather_subset gather_timeout fact_path", [_P], "leave it out: facts are read when a task asks"
    ),
    *_refused("validate_argspec", [_P], "check the variables with assert"),
    # everywhere
    _same("name", [p for p in _ALL if p is not _A], "name", "what is shown; may hold templates"),
    _same("vars", _ALL, "vars", "variables; of those of a task, its blocks and its play the nearest wins"),
    _same("tags", _ALL, "tags", "tags, in addition to those of what is around it"),
    _same("when", [*_BELOW_PLAYS, _N, _L], "conditions", "expressions that must all be true"),
    # handed down
    _same("become", _INHERITED, "bool_or_template", "whether commands run as another user, by sudo"),
    _same("become_user", _INHERITED, "text", "the user that become means; root if not given"),
    _differs("become_method", _INHERITED, "sudo", "only sudo"),
    _same(
        "environment", _INHERITED, "environment", "environment of the programs that a task runs on the host"
    ),
    _differs("no_log", [*_INHERITED, _N], "bool", "neither parameters nor results are shown; no template"),
    _differs("run_once", [*_INHERITED, _N], "bool", "one host does it, and all get its result; no template"),
    _same(
        "ignore_errors", [*_INHERITED, _N], "bool_or_template", "a failure does not end the play for a host"
    ),
    _same("ignore_unreachable", _INHERITED, "bool_or_template", "nor does it when the host can't be reached"),
    _differs("check_mode", _INHERITED, "check_mode", "true: a dry run always. false is refused"),
    _differs("diff", _INHERITED, "bool", "whether differences are shown, whatever --diff says; no template"),
    _differs(
        "any_errors_fatal", _INHERITED, "bool", "a failure on one host ends the play on all; no template"
    ),
    _differs("throttle", _INHERITED, "count", "at most so many hosts at the same time; no template"),
    _same("notify", _BELOW_PLAYS, "names", "handlers (or topics they listen to) to run after a change"),
    _same("delegate_to", _BELOW_PLAYS, "text", "the host on which it is done instead"),
    _differs("delegate_facts", _BELOW_PLAYS, "bool", "facts become those of the host it is delegated to"),
    # blocks
    _same("block", [_B], "tasks", "the tasks of the block"),
    _same("rescue", [_B], "tasks", "tasks that run when one of the block failed"),
    _same("always", [_B], "tasks", "tasks that run after these, whatever happened"),
    # tasks
    _same(
        "args", [*_TASKS, _I, _N], "args", "parameters of the module, in addition to those beside its name"
    ),
    _same("loop", [*_TASKS, _N], "list_or_template", "a list: the task runs once for each item of it"),
    _same("loop_control", [*_TASKS, _N], "loop_control", "names, label and pause of a loop"),
    _same("register", [*_TASKS, _N], "variable", "the variable that gets the result"),
    _same("until", _TASKS, "conditions", "the task is repeated until these are all true"),
    _same("retries", _TASKS, "count_or_template", "how often it is repeated at most; 3 if not given"),
    _same("delay", _TASKS, "number_or_template", "seconds between two attempts; 5 if not given"),
    _same("failed_when", _TASKS, "conditions", "the task failed if one of these is true, and only then"),
    _same(
        "changed_when",
        _TASKS,
        "conditions",
        "the task changed something if these are all true, and only then",
    ),
    _same("listen", [_H], "names", "topics by which the handler can be notified, too"),
    *_refused("action", _TASKS, "write the module's name as the key, its parameters below it"),
    *_refused("local_action", _TASKS, "write the module's name as the key, and delegate_to: localhost"),
    *_refused(
        "async poll",
        _TASKS,
        "leave it out: a task may take as long as it takes; for a service: klops.services",
    ),
    *_refused(
        "include", _TASKS, "include_tasks (found while the play runs) or import_tasks (when it is loaded)"
    ),
    *_refused("include_role import_role", _TASKS, "put the tasks into a file and import_tasks it"),
    *_refused("with_items", _TASKS, 'loop: LIST; a list of lists: loop: "{{ LIST | flatten(1) }}"'),
    *_refused("with_list", _TASKS, "loop: LIST"),
    *_refused("with_flattened", _TASKS, 'loop: "{{ LIST | flatten }}"'),
    *_refused("with_dict", _TASKS, 'loop: "{{ DICT | dict2items }}"'),
    *_refused("with_fileglob", _TASKS, "loop: \"{{ query('fileglob', 'files/*.conf') }}\""),
    *_refused("with_file", _TASKS, "loop over the names, and lookup('file', item) where the text is needed"),
    *_refused("with_sequence", _TASKS, 'loop: "{{ range(1, 9) }}"'),
    *_refused("with_together", _TASKS, 'loop: "{{ A | zip(B) }}"'),
    *_refused("with_nested with_cartesian", _TASKS, 'loop: "{{ A | product(B) }}"'),
    *_refused("with_subelements", _TASKS, "loop: \"{{ LIST | subelements('KEY') }}\""),
    *_refused("with_first_found", _TASKS, "loop: \"{{ query('first_found', ['a.yml', 'b.yml']) }}\""),
    *_refused("with_indexed_items", _TASKS, "loop: LIST, and loop_control: {index_var: index}"),
    *_refused("with_random_choice", _TASKS, '"{{ LIST | random }}" where the value is needed'),
    *_refused("with_lines", _TASKS, 'register a command, and loop: "{{ NAME.stdout_lines }}"'),
    *_refused("with_env", _TASKS, "\"{{ lookup('env', 'NAME') }}\" where the value is needed"),
    *_refused("with_inventory_hostnames", _TASKS, "loop: \"{{ groups['GROUP'] }}\""),
    # what klops has nowhere
    *_refused("connection", _INHERITED, f"{_CONNECTION}: ansible_connection (ssh or local); or delegate_to"),
    *_refused("remote_user", _INHERITED, f"{_CONNECTION}: ansible_user; or become_user"),
    *_refused("port", _INHERITED, f"{_CONNECTION}: ansible_port"),
    *_refused("become_flags become_exe", _INHERITED, "sudo is run as it is: set become and become_user"),
    *_refused("module_defaults", _INHERITED, "write the parameter on each task, or use a YAML anchor and <<"),
    *_refused("collections", _INHERITED, "ansible.builtin.NAME, ansible.legacy.NAME and NAME are the same"),
    *_refused("debugger", _INHERITED, "run again with -v, or begin with --start-at-task"),
    *_refused("timeout", _INHERITED, "put timeout(1) before the command: command: timeout 60 PROGRAM"),
)
_BY_NAME = {keyword.name: keyword for keyword in TABLE}
#: what is said of a keyword that stands in the wrong place, where there is more to say than where it belongs
_ELSEWHERE = {
    ("when", _P): "write it on a block around the tasks",
    ("loop", _B): "put the tasks into a file, and loop over include_tasks",
    ("loop", _I): "include_tasks can be looped over",
    ("register", _B): "write it on a task of the block",
    ("listen", _T): "only handlers listen",
    ("hosts", _T): "hosts is of plays; delegate_to does one task elsewhere",
    ("vars_files", _T): "vars_files is of plays",
    ("name", _A): "name the tasks in the file",
}


def supported(place: Place) -> frozenset[str]:
    """Names of the keywords that may stand there."""
    return frozenset(k.name for k in TABLE if place in k.places and k.verdict is not Verdict.REFUSED)


def refused(place: Place) -> dict[str, str]:
    """Names of Ansible's keywords that are refused there, with what to write instead."""
    return {k.name: k.note for k in TABLE if place in k.places and k.verdict is Verdict.REFUSED}


PLAY_KEYWORDS = supported(Place.PLAY)
_NEW_LOOP = "write it as loop: a list, or a template that gives one"


def why_not(word: str, place: Place) -> str:
    """The hint for a keyword of Ansible's that can't stand there; "" when it is none of Ansible's either."""
    keyword = _BY_NAME.get(word)
    if keyword is None:
        return _NEW_LOOP if word.startswith("with_") and place is not Place.PLAY else ""
    if (word, place) in _ELSEWHERE:
        return _ELSEWHERE[word, place]
    if keyword.verdict is Verdict.REFUSED:
        return keyword.note
    if place is Place.INCLUDE_TASKS and Place.APPLY in keyword.places:
        return f"write it for the included tasks: apply: {{{word}: ...}} beside file"
    homes = [home.value for home in Place if home in keyword.places and home is not Place.APPLY]
    return f"it may stand on: {', '.join(homes)}"


def refuse_unknown(node: MappingNode, place: Place, mistakes: Mistakes, *, but: Iterable[str] = ()) -> None:
    """Note every key that isn't a supported keyword of a ``place``; ``but`` are known to the caller."""
    known, passed = supported(place), set(but)
    what = place.value
    for key, _ in node.entries:
        if key.text in known or key.text in passed:
            continue
        hint = why_not(key.text, place)
        if hint:
            mistakes.add(key.location, f"{key.text} on {_article(what)} {what} is not supported", hint)
            continue
        near = nearest(key.text, known)
        hint = f"did you mean {near}?" if near else f"{_article(what)} {what} has: {', '.join(sorted(known))}"
        mistakes.add(key.location, f"{key.text!r} is no keyword of {_article(what)} {what}", hint)


def _article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"
