"""Whether whatever tasks notify is there. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from klops.playbook.load.nodes import Mistakes, Placed
from klops.playbook.model import Task
from klops.playbook.template.templar import is_template
from klops.yamlsource import nearest


def check_notifications(tasks: Sequence[Task], handlers: Sequence[Task], mistakes: Mistakes) -> None:
    """Note every ``notify`` that names neither a handler nor a topic, and handlers of one name.

    A name with a template isn't known yet: such a ``notify`` may mean any handler, such a handler be meant by
    any ``notify``.
    """
    called: set[str] = set()
    listening: set[str] = set()
    for handler in handlers:
        if handler.name in called:
            mistakes.add(handler.location, f"a second handler is called {handler.name!r}")
        called.add(handler.name)
        listening |= {handler.name, *handler.listen}
    if any(is_template(handler.name) for handler in handlers):
        return
    for task in (*tasks, *handlers):
        for name in task.notify:
            if not is_template(name) and name not in listening:
                near = nearest(name, listening)
                hint = f"did you mean {near!r}?" if near else "name a handler, or a topic that one listens to"
                where = name.location if isinstance(name, Placed) else task.location
                mistakes.add(where, f"notifies {name!r}, and this play has no such handler", hint)
