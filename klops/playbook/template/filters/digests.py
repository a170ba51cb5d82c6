"""Filters that make digests and identifiers of texts."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from typing import Any

from klops.playbook.template.filters.given import text, wrong

#: the namespace that to_uuid has in Ansible
_NAMESPACE = "361e6d51-faec-444a-9079-341386da8e2e"
#: shake has digests of any length
_KINDS = {name for name in hashlib.algorithms_guaranteed if not name.startswith("shake")}


def digest(value: Any, hashtype: str = "sha1") -> str:
    """The digest in hexadecimal: sha1, sha256, sha512, md5 and what else this Python has."""
    if hashtype not in _KINDS:
        raise wrong(f"hash: {hashtype!r} is none of {', '.join(sorted(_KINDS))}")
    return hashlib.new(hashtype, text(value).encode(), usedforsecurity=False).hexdigest()


def md5(value: Any) -> str:
    """The md5 digest."""
    return digest(value, "md5")


def sha1(value: Any) -> str:
    """The sha1 digest."""
    return digest(value)


def to_uuid(value: Any, namespace: str = _NAMESPACE) -> str:
    """A UUID (version 5) that is the same for the same text."""
    try:
        space = uuid.UUID(namespace)
    except ValueError:
        raise wrong(f"to_uuid: the namespace {namespace!r} is no UUID") from None
    return str(uuid.uuid5(space, text(value)))


FILTERS: dict[str, Callable[..., Any]] = {
    "checksum": sha1,
    "hash": digest,
    "md5": md5,
    "sha1": sha1,
    "to_uuid": to_uuid,
}
