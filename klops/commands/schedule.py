"""What has the pass of a host run again and again: lines for cron, a timer for systemd. Pure.

An entry of klops is known by the root that it names in a comment, whatever the file is called that it is in.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import shlex
from collections.abc import Sequence

from klops import crontimes
from klops.commands import cron

#: Where cron looks for files of root's.
FOLDER = "/etc/cron.d"
#: Where systemd looks for units that an administrator made.
UNITS = "/etc/systemd/system"
#: Owner and mode that cron asks of such a file.
OWNER, MODE = 0, 0o644
#: Characters of a file's name, at most.
LONGEST_NAME = 64
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_MARK = "# klops: the scheduled pass of "
_ENTRY = "klops: the scheduled pass of "


def mark(root: str) -> str:
    """The line by which files are known that run the pass of this root."""
    return _MARK + root


def entry_name(root: str) -> str:
    """The name of the entry in a user's crontab."""
    return _ENTRY + root


def file_name(root: str) -> str:
    """A name for the file that cron doesn't pass over: no dot; and another one for every root.

    >>> file_name("/srv/llm-v1.5")
    'klops-srv-llm-v1-5-f1a211c2c8'
    """
    digest = hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()[:10]
    slug = re.sub(r"[^A-Za-z0-9_]+", "-", root).strip("-")
    room = LONGEST_NAME - len(f"klops--{digest}")
    return "-".join(filter(None, ("klops", slug[-room:].strip("-"), digest)))


def command(argv: Sequence[str]) -> str:
    """A command line as it stands in a crontab: what a shell of cron's then runs is ``argv``, word by word.

    cron makes a newline of ``%`` and a ``%`` of ``\\%``; busybox leaves both alone. So it is written outside
    of quotes, where a shell, too, makes a ``%`` of it. Some, but not all, make one backslash of two: the
    quotes are closed and opened again between them. Raises ``ValueError`` for a line break, which no line can
    hold.

    >>> print(command(["date", "+%F", "a b%"]))
    date +\\%F 'a b'\\%''
    """
    words = []
    for word in argv:
        if re.search(r"[\r\n\0]", word):
            raise ValueError(f"a line of a crontab can't hold a line break: {word!r}")
        quoted = shlex.quote(word)
        if quoted != word:
            quoted = re.sub(r"\\(?=\\)", r"\\''", quoted).replace("%", "'%'")
        words.append(quoted.replace("%", r"\%"))
    return " ".join(words)


def job(root: str) -> list[str]:
    """What is run. It needs no mode: the shell reads it."""
    return ["sh", f"{root}/pass", "--log"]


def file_text(root: str, container: str, schedule: str) -> str:
    """A file of ``/etc/cron.d``, run by root. Raises ``ValueError`` as :func:`command` does."""
    line = f"{schedule} root {command(job(root))}"
    whose = f"# It looks after container {container}. Written by klops cron install; klops cron remove takes"
    more = "# it away. Its log is log/pass.log there, how it ended pass.jsonl."
    return "\n".join((mark(root), whose, more, "SHELL=/bin/sh", f"PATH={PATH}", 'MAILTO=""', line, ""))


def with_entry(crontab: str, root: str, schedule: str) -> str:
    """A user's crontab, as it was listed, with the entry, and that once; every other line is as it was."""
    lines = cron.lines_of(crontab, listed=True)
    if len(entries(crontab, root)) > 1:
        lines = cron.without_entry(lines, entry_name(root))
    return _joined(cron.with_entry(lines, entry_name(root), f"{schedule} {command(job(root))}"))


def without_entry(crontab: str, root: str) -> str:
    """A user's crontab, as it was listed, without the entry; every other line is as it was."""
    lines = cron.lines_of(crontab, listed=True)
    kept = cron.without_entry(lines, entry_name(root))
    return crontab if kept == lines else _joined(kept)


def entries(crontab: str, root: str) -> list[str]:
    """The lines of the entry in a user's crontab: one, unless somebody has copied it."""
    lines = crontab.split("\n")
    named = cron.MARK + entry_name(root)
    return [below for line, below in itertools.pairwise(lines) if line == named]


def entry(crontab: str, root: str) -> str:
    """The first of them; "" when there is none."""
    return next(iter(entries(crontab, root)), "")


def line_of(text: str) -> str:
    """The line that runs something, in a file that :func:`file_text` made; "" when there is none."""
    lines = text.removesuffix("\n").split("\n")
    return next((line for line in lines if re.match(r"[0-9*@]", line)), "")


def foreign(text: str, root: str) -> list[str]:
    """The lines of a file of ``/etc/cron.d`` that are neither comments nor variables nor run this pass.

    >>> foreign("# x\\nA=b\\n@daily root sh /k/pass --log\\n@daily root true\\n", "/k")
    ['@daily root true']
    """
    own = f" root {command(job(root))}"
    lines = (line.rstrip("\r") for line in text.split("\n"))
    return [line for line in lines if not (re.match(r"#|[A-Za-z_].*=|$", line) or line.endswith(own))]


def when(line: str) -> str:
    """The schedule at the beginning of a line, as far as it can be read; "" else."""
    text = line.split()[0] if line.startswith("@") else " ".join(line.split()[:5])
    try:
        crontimes.parse(text)
    except ValueError:
        return ""
    return text


def _joined(lines: Sequence[str]) -> str:
    return "".join(line + "\n" for line in lines)


def refusals(name: str, content: bytes, *, kind: str, mode: int, uid: int, links: int) -> list[str]:
    """Why cron would pass over a file of ``/etc/cron.d``, mostly without a word; nothing when it takes it."""
    found = []
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        found.append(f"its name {name!r} has more than letters, digits, _ and -")
    if kind != "file" or links != 1:
        found.append("it is no regular file of its own")
    if uid != OWNER:
        found.append(f"it belongs to user {uid}, not to root")
    if mode & 0o022:
        found.append(f"others than its owner may write it (mode {mode:04o})")
    if not content.endswith(b"\n"):
        found.append("its last line has no end")
    if b"\r" in content:
        found.append("its lines end as on Windows")
    return found


def unit_name(root: str) -> str:
    """The name of service and timer, without the kind."""
    return file_name(root)


def service_unit(root: str, container: str) -> str:
    """The service that the timer starts: one pass."""
    words = " ".join(_systemd_word(word) for word in ["/bin/sh", *job(root)[1:]])
    return (
        f"{mark(root)}\n[Unit]\nDescription=klops: scheduled pass for container {container}\n"
        f"After=docker.service\n\n[Service]\nType=oneshot\nExecStart={words}\n"
        # what a pass starts is docker's; a helper that still looks is no reason to wait
        "KillMode=process\nTimeoutStartSec=600\n"
    )


def timer_unit(root: str, schedule: str) -> str:
    """The timer, with cron's schedule in systemd's words."""
    calendars = "".join(f"OnCalendar={one}\n" for one in calendar(schedule))
    return (
        f"{mark(root)}\n[Unit]\nDescription=klops: scheduled pass\n\n"
        f"[Timer]\n{calendars}AccuracySec=1s\n\n[Install]\nWantedBy=timers.target\n"
    )


def calendar(schedule: str) -> list[str]:
    """The same moments as expressions of systemd's ``OnCalendar``.

    >>> calendar("*/30 4 * * 1-5")
    ['Mon,Tue,Wed,Thu,Fri *-*-* 04:00,30:00']
    """
    times = crontimes.parse(schedule)
    clock = f"{_listed(times.hours, 24, 0)}:{_listed(times.minutes, 60, 0)}:00"
    date = f"*-{_listed(times.months, 12, 1)}-{_listed(times.days, 31, 1)}"
    every_day = f"*-{_listed(times.months, 12, 1)}-*"
    names = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
    week = ",".join(names[day] for day in sorted(times.weekdays)) + " "
    if times.any_day or times.any_weekday:
        return [f"{'' if len(times.weekdays) == len(names) else week}{date} {clock}"]
    # cron runs on days that are in one of the two
    return [f"{date} {clock}", f"{week}{every_day} {clock}"]


def _listed(values: frozenset[int], count: int, first: int) -> str:
    whole = values == frozenset(range(first, first + count))
    return "*" if whole else ",".join(f"{value:02d}" for value in sorted(values))


def _systemd_word(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', r"\"").replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if escaped != word or re.search(r"[^\w@+=:,./-]", word) else word
