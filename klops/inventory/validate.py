"""From merged nodes to typed settings; every mistake with its place and the nearest right key."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from klops.cards.choice.groups import power_of_two
from klops.cards.choice.selection import legal_set
from klops.errors import Location, Mistake, SourceErrors
from klops.inventory.settings import Settings, Target, VisibleEnv
from klops.inventory.variables import SETTINGS
from klops.yamlsource import MappingNode, Node, ScalarNode, SequenceNode, nearest

#: Seconds beyond a service's own ``stop_timeout`` until its last process is gone: 8 after TERM went to all of
#: them, 10 until KILL is known not to help, and a look or two.
_ENDING = 20.0
#: Seconds the supervisor has for the end of all units when the container stops; they end side by side.
CLOSING = 100.0

#: A key's place in the settings: names of keys and indexes of lists.
Path = tuple[int | str, ...]
#: What is wrong with settings: at which path, what, and what would be right.
Problem = tuple[Path, str, str]
Checks = Callable[[Settings], Iterable[Problem]]


def build_settings(tree: Node | None, more: Checks | None = None) -> Settings:
    """Typed settings from the merged ``klops`` variable. Raises :class:`SourceErrors` with all mistakes.

    ``more`` finds problems that the settings alone don't show.
    """
    if tree is None or _is_null(tree):
        return Settings()
    if not isinstance(tree, MappingNode):
        raise SourceErrors([Mistake(tree.location, f"expected a mapping for {SETTINGS}")])
    try:
        settings = Settings.model_validate(_input(tree, Settings))
    except ValidationError as error:
        found = [
            _mistake(tree, dict(problem)) for problem in error.errors(include_url=False, include_input=False)
        ]
        # without the chain: pydantic's own text shows the values, and one may be a secret
        raise SourceErrors(found) from None
    problems = itertools.chain(_cross_checks(settings), more(settings) if more else ())
    if found := [Mistake(_locate(tree, path)[1], text, hint) for path, text, hint in problems]:
        raise SourceErrors(found)
    return settings


def default_of(path: Sequence[str]) -> Iterator[Any]:
    """The shipped default of a dotted key below ``klops``: one value, or none when the key has no default."""
    if not path:
        yield Settings().model_dump(by_alias=True)
        return
    kind: Any = Settings
    for key in path[:-1]:
        kind = _kind_below(kind, key)
    field = _fields(kind).get(path[-1])
    if field is not None and not field.is_required():
        value = field.get_default(call_default_factory=True)
        yield value.model_dump(by_alias=True) if isinstance(value, BaseModel) else value


def known_below(path: Sequence[str]) -> list[str]:
    """The keys that a section of the settings knows; none when there is no such section."""
    kind: Any = Settings
    for key in path:
        kind = _kind_below(kind, key)
    return list(_fields(kind))


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _fields(kind: Any) -> dict[str, FieldInfo]:
    """The keys of a section as they are written; none when it is no section."""
    if not _is_model(kind):
        return {}
    return {field.alias or name: field for name, field in kind.model_fields.items()}


def _kind_below(kind: Any, key: int | str) -> Any:
    """The declared type of a section's key, or of an entry of a mapping or list; None when there is none."""
    if _is_model(kind):
        field = _fields(kind).get(str(key))
        return field.annotation if field else None
    below = get_args(kind)[-1] if get_origin(kind) in (dict, list) else None
    return get_args(below)[0] if get_origin(below) is Annotated else below


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.plain and node.value is None


def _input(node: Node, kind: Any) -> Any:
    """What the models take: mappings and lists as Python's, scalars as nodes, null as None.

    A section or collection that is written but empty is an empty one.
    """
    if isinstance(node, MappingNode):
        return {key.text: _input(value, _kind_below(kind, key.text)) for key, value in node.entries}
    if isinstance(node, SequenceNode):
        return [_input(item, _kind_below(kind, 0)) for item in node.items]
    if _is_null(node):
        return {} if _is_model(kind) or get_origin(kind) is dict else [] if get_origin(kind) is list else None
    return node


def _mistake(tree: Node, problem: Mapping[str, Any]) -> Mistake:
    """One of pydantic's problems as a mistake."""
    path: Path = problem["loc"]
    key_place, value_place = _locate(tree, path)
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "klops":
        place = key_place if path[-1] == "[key]" else value_place
        return Mistake(place, f"{_dotted(path)}: {context['message']}", context["hint"])
    if kind == "extra_forbidden":
        known = known_below([str(part) for part in path[:-1]])
        near = nearest(str(path[-1]), known)
        hint = f"did you mean {near}?" if near else f"known here: {', '.join(known)}"
        return Mistake(key_place, f"unknown setting {_dotted(path)}", hint)
    if kind == "missing":
        return Mistake(key_place, f"{_dotted(path)} is needed", f"write {path[-1]}: ...")
    expected = {"model_type": "a mapping", "dict_type": "a mapping", "list_type": "a list"}.get(kind)
    return Mistake(
        value_place, f"{_dotted(path)}: " + (f"expected {expected}" if expected else problem["msg"])
    )


def _dotted(path: Path) -> str:
    text = SETTINGS
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else "" if part == "[key]" else f".{part}"
    return text


def _locate(tree: Node, path: Path) -> tuple[Location, Location]:
    """Places of a path's key and value; of the last part that exists when the rest doesn't."""
    key_place, node = tree.location, tree
    for part in path:
        if isinstance(node, MappingNode):
            key, below = node.key(str(part)), node.get(str(part))
            if key is None or below is None:
                break
            # what isn't written has no place of its own
            key_place, node = (
                key.location,
                ScalarNode(key.location, "", True, None) if _is_null(below) else below,
            )
        elif isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
            key_place = node.location
        else:
            break
    return key_place, node.location


def _cross_checks(settings: Settings) -> Iterator[Problem]:
    """What no single setting can know."""
    cards = settings.cards
    yield from _indexes(("cards", "use"), cards.use or [], range(cards.expected), "cards.expected")
    if "groups" in cards.model_fields_set:
        for number, group in enumerate(cards.groups):
            yield from _indexes(("cards", "groups", number), group, range(cards.expected), "cards.expected")
    yield from _known_cards(settings)
    yield from _selections(settings)
    yield from _targets(settings)
    yield from _stack(settings)
    for name, service in settings.services.items():
        path: Path = ("services", name, "cards")
        if service.cards is not None:
            yield from _indexes(
                path, service.cards, cards.indexes, "cards.use" if cards.use else "cards.expected"
            )
            if not service.cards:
                yield path, f"{_dotted(path)} is empty", "name cards, or leave the setting out"
            else:
                yield from _unlike(name, service.tp, len(service.cards))
        elif isinstance(service.tp, int) and legal_set(service.tp, cards.indexes, cards.groups) is None:
            known = ", ".join(map(str, cards.indexes))
            text = f"tp {service.tp}: no group of {service.tp} cards among those in use ({known})"
            yield ("services", name, "tp"), text, f"lower tp, or see {SETTINGS}.cards.use and groups"
        yield from _twice_with_other_dashes(name, list(service.args))
        yield from _cut_short(settings, name)
    for (one, first), (two, second) in itertools.combinations(settings.services.items(), 2):
        if first.port == second.port:
            text = f"the services {one} and {two} both have port {first.port}"
            yield ("services", two, "port"), text, "give each its own port"
        if shared := sorted(set(first.cards or ()) & set(second.cards or ())):
            text = f"the services {one} and {two} both have card {', '.join(map(str, shared))}"
            yield ("services", two, "cards"), text, "services of one host have disjoint cards"


def _known_cards(settings: Settings) -> Iterator[Problem]:
    """What is said of cards, and of their tests."""
    cards = settings.cards
    for index in cards.identities:
        if index >= cards.expected:
            path: Path = ("cards", "identities", str(index))
            text = f"{_dotted(path)}: card {index} is outside of {SETTINGS}.cards.expected"
            yield path, text, f"the cards are {', '.join(map(str, range(cards.expected)))}"
    if cards.probe.needed > cards.probe.tries:
        path = ("cards", "probe", "needed" if "needed" in cards.probe.model_fields_set else "tries")
        text = f"{SETTINGS}.cards.probe.needed is {cards.probe.needed}, of {cards.probe.tries} tries"
        yield path, text, "a test counts as failed that fails so often of so many tries"


def _targets(settings: Settings) -> Iterator[Problem]:
    """Where the release is to be found: each a root or a package, and each once."""
    seen: set[str] = set()
    for number, target in enumerate(settings.source.targets):
        path: Path = ("source", "targets", number)
        if (target.root is None) == (target.package is None):
            both = "both a root and a package" if target.root else "neither a root nor a package"
            yield path, f"{_dotted(path)} is {both}", "write root: /FOLDER, or package: NAME"
            continue
        given = [key for key in ("path", "place", "carry") if key in target.model_fields_set]
        if target.root is not None and given:
            yield (*path, given[0]), f"{_dotted((*path, given[0]))} belongs to a package", "delete it"
        if target.package is not None and target.carry and not settings.source.build.commands:
            key: Path = (*path, "carry")
            text = (
                f"{_dotted(key)}: only a build takes files over, and {SETTINGS}.source.build has no commands"
            )
            yield (
                key,
                text,
                'write source: {build: {commands: ["true"]}} if nothing is to be run, or delete it',
            )
        if target.root is not None and _below(target.root, settings.root):
            text = f"{_dotted((*path, 'root'))}: {target.root} is within {SETTINGS}.root"
            yield (*path, "root"), text, "name a folder of its own"
        if target.package is not None and not _ends_as(target):
            text = f"{_dotted((*path, 'path'))}: {target.folder} can't be imported as {target.package}"
            yield (*path, "path"), text, f"it has to end with {target.package.replace('.', '/')}"
        installed = [one for one in settings.source.build.installs if _as_imported(one) == target.package]
        if installed and target.place == "site-packages":
            text = (
                f"{_dotted(('source', 'build', 'installs'))} names {installed[0]}, which is a target as well"
            )
            yield (*path, "package"), text, "the build puts it there, or klops does: name it once"
        for other in settings.source.targets[:number]:
            if _within_each_other(target, other):
                one, two = (each.root or each.package for each in (other, target))
                yield (
                    path,
                    f"{_dotted(path)}: {one} and {two} are within each other",
                    "name the upper one alone",
                )
        name = target.package or target.root or ""
        if name in seen:
            yield path, f"{_dotted(path)}: {name} is named twice", "delete one"
        seen.add(name)


def _as_imported(distribution: str) -> str:
    return re.sub(r"[-_.]+", "_", distribution).lower()


def _within_each_other(one: Target, other: Target) -> bool:
    """Whether the link for one of them would have to be made behind that of the other."""
    if one.root and other.root:
        return one.root != other.root and (_below(one.root, other.root) or _below(other.root, one.root))
    if not (one.package and other.package) or "pythonpath" in (one.place, other.place):
        return False
    first, second = sorted((one.package, other.package), key=len)
    return second.startswith(f"{first}.")


def _below(path: str, folder: str) -> bool:
    return f"{posixpath.normpath(path)}/".startswith(f"{folder}/")


def _ends_as(target: Target) -> bool:
    """Whether the package's folder has the package's name, so that one above it can stand on the path."""
    return f"/{target.folder}".endswith(f"/{(target.package or '').replace('.', '/')}")


def _stack(settings: Settings) -> Iterator[Problem]:
    """Each distribution and each file once, and one way to change a file."""
    names: dict[str, str] = {}
    for name in settings.stack.packages:
        first = names.setdefault(re.sub(r"[-_.]+", "-", name).lower(), name)
        if first != name:
            yield ("stack", "packages", name), f"{first} and {name} are one distribution", "keep one of them"
    files: set[str] = set()
    for number, patch in enumerate(settings.stack.patches):
        path: Path = ("stack", "patches", number)
        if (patch.copy_from is None) == (patch.diff is None):
            text = f"{_dotted(path)} has {'neither copy nor diff' if patch.diff is None else 'both'}"
            yield path, text, "write copy: FILE, or diff: FILE"
        if patch.file in files:
            yield (*path, "file"), f"{_dotted(path)}: {patch.file} is named twice", "make one patch of them"
        files.add(patch.file)


def _selections(settings: Settings) -> Iterator[Problem]:
    """Two variables that select different cards: which of them counts differs from runtime to runtime."""
    container = settings.container.env
    for where, env in (
        (("container",), container),
        *((("services", name), {**container, **one.env}) for name, one in settings.services.items()),
    ):
        told = {name: env[name] for name in get_args(VisibleEnv) if name in env}
        own = container if where == ("container",) else settings.services[where[-1]].env
        written = [name for name in told if name in own]
        if len(set(told.values())) > 1 and written:
            listed = " and ".join(f"{name}={value}" for name, value in told.items())
            path: Path = (*where, "env", written[-1])
            text = f"{_dotted(path)}: {listed} select different cards"
            yield (
                path,
                text,
                f"delete them: klops sets one, {SETTINGS}.cards.visible_env, and removes the others",
            )


def _unlike(name: str, tp: int | str, count: int) -> Iterator[Problem]:
    """A service runs on exactly the cards it names, so their number is its tensor parallel size."""
    path: Path = ("services", name, "cards")
    if isinstance(tp, int) and tp != count:
        less = "more" if tp > count else "fewer"
        text = f"tp {tp} needs {less} than the {count} cards of {_dotted(path)}"
        yield ("services", name, "tp"), text, f"name {tp} cards, or set tp to {count}"
    elif not isinstance(tp, int) and power_of_two(count) != count:
        text = f"{_dotted(path)}: {count} cards make no tensor parallel group by themselves (1, 2, 4, 8)"
        yield path, text, f"name another number of cards, or insist with tp: {count}"


def _cut_short(settings: Settings, name: str) -> Iterator[Problem]:
    """A stop of the container must leave a service its own time: docker kills what it doesn't wait for."""
    wanted, given = settings.services[name].stop_timeout, settings.container.stop_timeout
    path = ("services", name, "stop_timeout")
    if wanted + _ENDING > CLOSING:
        text = f"{_dotted(path)} is {wanted:g} s, more than a stopping container can wait for"
        yield path, text, f"at most {CLOSING - _ENDING:g} s"
    elif wanted + _ENDING > given:
        at: Path = ("container", "stop_timeout")
        set_here = "stop_timeout" in settings.container.model_fields_set
        text = f"{_dotted(at)} is {given:g} s, too short for {_dotted(path)}, {wanted:g} s"
        yield at if set_here else path, text, f"set it to {wanted + _ENDING:g} s or more"


def _indexes(path: Path, given: Sequence[int], allowed: Sequence[int], limit: str) -> Iterator[Problem]:
    for at, index in enumerate(given):
        if index not in allowed:
            text = f"{_dotted((*path, at))}: card {index} is outside of {SETTINGS}.{limit}"
            yield (*path, at), text, f"the cards are {', '.join(map(str, allowed))}"
        if index in given[:at]:
            yield (*path, at), f"{_dotted((*path, at))}: card {index} is named twice", "delete it"


def _twice_with_other_dashes(service: str, flags: Sequence[str]) -> Iterator[Problem]:
    """vllm reads ``max_model_len`` and ``max-model-len`` as one flag."""
    seen: dict[str, str] = {}
    for flag in flags:
        first = seen.setdefault(flag.replace("_", "-"), flag)
        if first != flag:
            text = f"{first} and {flag} are the same flag of vllm serve"
            yield ("services", service, "args", flag), text, "keep one of them"
