"""Who has nodes opened, for tests that have no audit log to look at."""

from __future__ import annotations

import os

from klops.agent.audit import Audit
from klops.agent.processes.access import Access
from klops.agent.trouble import Troubles


def opener() -> Access:
    """One that has tested nothing yet."""
    return Access(Audit(os.devnull, "a test", Troubles()))
