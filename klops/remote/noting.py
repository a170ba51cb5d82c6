"""The line in a host's audit log for each signal that a script sends there.

It is written as well as can be: a root that isn't there yet, a log of another user or a full disk keeps no
script from ending what it has to end. Not noted is what a script sends to its own helpers, children of its
own shell that run no command of anybody, and what timeout(1) sends to a read that has a deadline of its own
(:mod:`klops.remote.bounded`).

In a dry run too: any other read that hangs is ended there as well, nothing but klops' own command is, and
nobody could account for a signal without a line.
"""

from __future__ import annotations

import json
import shlex
import socket

from klops.remote import whoami
from klops.remote.audit import BY

#: ``noted SIGNAL PID START GROUP WHY HOW OUTCOME``: its namespace is told by /proc as long as it is there;
#: its start (clock ticks after boot) is the caller's to know, as after the signal it may be gone. In a
#: subshell, so that a redirection that fails ends nothing.
_NOTED = r"""
noted() {
(
umask 077
read -r b </proc/sys/kernel/random/boot_id
n=$(readlink /proc/"$2"/ns/pid); n=${n#*\[}; n=${n%]}
a=$(date +%s)
l=$(printf '"pid": %s, "start": %s, "group": %s, "boot": "%s", "ns": %s, "name": "sh", "signal": "SIG%s"' \
"$2" "${3:-0}" "$4" "$b" "${n:-null}" "$1")
printf '{"at": %s, %s, %s, "why": "%s", "how": "kill: %s", "outcome": "%s"}\n' \
"${a:-0}" @HEAD@ "$l" "$5" "$6" "$7" >>@LOG@
) 2>/dev/null
return 0
}
"""


def noting(audit_log: str) -> str:
    """The lines that define ``noted``; where there is no log, as one that does nothing."""
    if not audit_log:
        return "noted() { :; }\n"
    who = {"by": BY, "who": whoami.user(), "from": socket.gethostname(), "event": "signal", "unit": ""}
    head = json.dumps(who)[1:-1]
    return _NOTED.lstrip().replace("@HEAD@", shlex.quote(head)).replace("@LOG@", shlex.quote(audit_log))
