"""Digests that both ends compute: of a unit's specification, of its secrets, and of changed packages.

No I/O here, so that the control side can use the very same functions.
"""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping

#: Hex digits that tell which packages a unit was started on.
_DIGITS = 16


def canonical(value: Any) -> str:
    """One spelling per JSON value: keys sorted, no blanks, ASCII only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def spec_digest(spec: Mapping[str, Any]) -> str:
    """sha256 (64 hex digits) over everything in a unit's specification but the key ``digest`` itself."""
    body: Dict[str, Any] = {key: value for key, value in spec.items() if key != "digest"}
    return _sha256(canonical(body))


def secret_digest(salt: str, secrets: Mapping[str, str]) -> str:
    """sha256 over the salt (hex digits) and the secrets, to compare without sending them back."""
    return _sha256(salt + canonical(dict(secrets)))


def packages_digest(changed: Mapping[str, Any], patched: Mapping[str, Any]) -> str:
    """Of what klops has changed of the container's packages; "" while that is nothing.

    ``changed``: ``{"version", "record"}`` or None of each distribution by name; ``patched``: sha256 of each
    patched file.
    """
    if not changed and not patched:
        return ""
    return _sha256(canonical([changed, patched]))[:_DIGITS]


def _sha256(text: str) -> str:
    import hashlib  # it loads OpenSSL, and a status mostly needs no digest

    return hashlib.sha256(text.encode("ascii")).hexdigest()
