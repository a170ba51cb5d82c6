"""Which handlers a notification means, and which of them a host still has to run. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from klops.playbook.model import Task


def meant(handlers: Sequence[Task], notification: str, title: Callable[[Task], str]) -> list[int]:
    """Places of the handlers that have this name or listen to this topic.

    ``title`` gives the name of a handler as it reads on the host; the name as written is known, too. Where
    templates come to the same name the last one counts, as in Ansible.
    """
    named = [
        place
        for place, handler in enumerate(handlers)
        if handler.name == notification or ("{{" in handler.name and title(handler) == notification)
    ]
    listening = [place for place, handler in enumerate(handlers) if notification in handler.listen]
    return sorted({*named[-1:], *listening})


@dataclass(frozen=True)
class Due:
    """A handler that is to run: the reason why that isn't certain ("" when it is), and whether it is what
    an earlier run left undone."""

    unsure: str = ""
    left_over: bool = False


@dataclass
class Agenda:
    """The handlers of a play that one host has to run, by their places."""

    handlers: Sequence[Task]
    title: Callable[[Task], str]
    due: dict[int, Due] = field(default_factory=dict)

    def notify(self, notification: str, due: Due) -> None:
        """Note what a notification means; one that is certain is stronger than one that is not."""
        for place in meant(self.handlers, notification, self.title):
            if place not in self.due or self.due[place].unsure:
                self.due[place] = due

    def after(self, place: int) -> tuple[Task, ...]:
        """What is to run of the handlers behind this place."""
        return tuple(self.handlers[later] for later in sorted(self.due) if later > place)
