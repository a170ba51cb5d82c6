"""Noting in the audit log of this user what a command does that runs no playbook."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from klops.errors import Interrupted, KlopsError

if TYPE_CHECKING:
    from klops.cli.session import Session


@contextmanager
def audited(session: Session, event: str, hosts: Sequence[str], fields: Mapping[str, Any]) -> Iterator[None]:
    """Around the work: ``EVENT-begun``, and at the end ``EVENT-ended`` with exit status or error code."""
    from klops.remote.lock import LockOwner
    from klops.ui.auditfile import AuditFile

    file = AuditFile(session.redactor)
    who = LockOwner.here()
    file.note(f"{event}-begun", {**who.as_json(), "hosts": list(hosts), **fields})
    began = time.monotonic()
    # a fault of klops, unless it is something else
    end: dict[str, Any] = {"code": "internal"}
    try:
        yield
        end = {"rc": 0}
    except typer.Exit as done:
        end = {"rc": done.exit_code}
        raise
    except KlopsError as error:
        end = {"code": error.code}
        raise
    except KeyboardInterrupt:
        end = {"code": Interrupted.code}
        raise
    finally:
        seconds = round(time.monotonic() - began, 3)
        file.note(f"{event}-ended", {"run": who.run, **end, "seconds": seconds})
