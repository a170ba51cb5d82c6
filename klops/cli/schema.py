"""``klops schema``: JSON Schema for editors."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Annotated

import typer


class Subject(str, Enum):
    """What a schema describes."""

    PLAYBOOK = "playbook"
    INVENTORY = "inventory"


def schema(
    subject: Annotated[Subject, typer.Argument(help="playbook or inventory.", show_default=False)],
) -> None:
    """Print the JSON Schema of playbooks or inventories, for an editor that checks while you type.

    Example: klops schema playbook
    """
    import json

    if subject is Subject.PLAYBOOK:
        from klops.actions.catalog import catalog
        from klops.playbook.schema.document import playbook_schema

        found = playbook_schema(catalog())
    else:
        from klops.inventory.schema import inventory_schema

        found = inventory_schema()
    sys.stdout.write(json.dumps(found, ensure_ascii=False, indent=2) + "\n")
