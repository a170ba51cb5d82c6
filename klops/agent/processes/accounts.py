"""Names of users, as this container has them."""

from __future__ import annotations


def name(uid: int) -> str:
    """What a user is called here; the number of one without a name."""
    import pwd  # not every verb needs it, and each of them starts anew

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
