"""Filters for dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from klops.playbook.template.filters.given import kind, wrong
from klops.playbook.template.pending import Pending

_Merge = Callable[[list[Any], list[Any]], list[Any]]
#: ``list_merge`` of combine -> of an earlier and a later list the one that counts
_LISTS: dict[str, _Merge] = {
    "replace": lambda old, new: new,
    "keep": lambda old, new: old,
    "append": lambda old, new: old + new,
    "prepend": lambda old, new: new + old,
    # rp: what the later list has too is only there once, at the later one's place
    "append_rp": lambda old, new: [item for item in old if item not in new] + new,
    "prepend_rp": lambda old, new: new + [item for item in old if item not in new],
}


def combine(*terms: Any, recursive: bool = False, list_merge: str = "replace") -> dict[Any, Any]:
    """One dictionary of several (or of a list of them), later ones win; ``recursive`` goes into depth."""
    if list_merge not in _LISTS:
        raise wrong(f"combine: list_merge {list_merge!r} is none of {', '.join(_LISTS)}")
    flat = [one for term in terms for one in (term if isinstance(term, (list, tuple)) else [term])]
    found: dict[Any, Any] = {}
    for one in flat:
        if isinstance(one, Pending):
            one.fail()
        if not isinstance(one, Mapping):
            raise wrong(f"combine takes dictionaries, not {kind(one)}")
        found = _merged(found, one, recursive, _LISTS[list_merge])
    return found


def _merged(old: Mapping[Any, Any], new: Mapping[Any, Any], recursive: bool, lists: _Merge) -> dict[Any, Any]:
    found = dict(old)
    for key, value in new.items():
        before = found.get(key)
        if recursive and isinstance(before, Mapping) and isinstance(value, Mapping):
            found[key] = _merged(before, value, recursive, lists)
        elif isinstance(before, list) and isinstance(value, list):
            found[key] = lists(before, value)
        else:
            found[key] = value
    return found


def dict2items(value: Any, key_name: str = "key", value_name: str = "value") -> list[dict[str, Any]]:
    """A list of ``{key: ..., value: ...}``."""
    if not isinstance(value, Mapping):
        raise wrong(f"dict2items takes a dictionary, not {kind(value)}")
    return [{key_name: key, value_name: item} for key, item in value.items()]


def items2dict(value: Any, key_name: str = "key", value_name: str = "value") -> dict[Any, Any]:
    """The dictionary that a list of ``{key: ..., value: ...}`` stands for."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise wrong(f"items2dict takes a list, not {kind(value)}")
    found = {}
    for item in value:
        if not isinstance(item, Mapping) or key_name not in item or value_name not in item:
            raise wrong(f"items2dict: every item must be a dictionary with {key_name!r} and {value_name!r}")
        found[item[key_name]] = item[value_name]
    return found


def rekey_on_member(value: Any, key: str, duplicates: str = "error") -> dict[Any, Any]:
    """Dictionaries by what each holds under ``key``; ``duplicates`` is error or overwrite."""
    if duplicates not in ("error", "overwrite"):
        raise wrong(f"rekey_on_member: duplicates {duplicates!r} is neither error nor overwrite")
    items = list(value.values()) if isinstance(value, Mapping) else value
    if not isinstance(items, (list, tuple)):
        raise wrong(f"rekey_on_member takes a list or a dictionary, not {kind(value)}")
    found: dict[Any, Any] = {}
    for item in items:
        if not isinstance(item, Mapping) or key not in item:
            raise wrong(f"rekey_on_member: every item must be a dictionary with {key!r}")
        if item[key] in found and duplicates == "error":
            raise wrong(f"rekey_on_member: two items have {key}={item[key]!r}")
        found[item[key]] = item
    return found


def subelements(value: Any, subelements: Any, skip_missing: bool = False) -> list[tuple[Any, Any]]:
    """Each item with each element of the list it holds under a key (or a path such as ``a.b``)."""
    if not isinstance(value, (Mapping, list, tuple)):
        raise wrong(f"subelements takes a list or a dictionary, not {kind(value)}")
    path = subelements.split(".") if isinstance(subelements, str) else list(subelements)
    found = []
    for item in list(value.values()) if isinstance(value, Mapping) else value:
        inner = item
        for part in path:
            if not isinstance(inner, Mapping):
                raise wrong(f"subelements: {part!r} is asked of {kind(inner)}, not of a dictionary")
            if part not in inner:
                if skip_missing:
                    inner = []
                    break
                raise wrong(f"subelements: an item lacks {'.'.join(path)!r}: skip_missing=true skips it")
            inner = inner[part]
        if not isinstance(inner, list):
            raise wrong(f"subelements: {'.'.join(path)!r} holds {kind(inner)}, not a list")
        found += [(item, element) for element in inner]
    return found


FILTERS: dict[str, Callable[..., Any]] = {
    "combine": combine,
    "dict2items": dict2items,
    "items2dict": items2dict,
    "rekey_on_member": rekey_on_member,
    "subelements": subelements,
}
