"""The verbs' command line. A verb's module is imported only when asked for: start-up is most of the cost."""

from __future__ import annotations

import sys
from typing import Callable

from klops.agent.errors import VerbError
from klops.agent.options import Options, digest_of


def _run(options: Options, package: str) -> int:
    verb = options.verb
    if verb == "gate":
        from klops.agent.units import gate

        return gate.main()
    if verb == "rank":
        from klops.agent.xccl.ranks import rank

        return rank.main()
    if verb in ("hold", "supervise", "compile"):
        from klops.agent import cache

        cache.write(package)
    if verb == "compile":
        return 0
    if verb == "several":
        # loaded once, before each verb gets a process of its own
        from klops.agent.verbs import dispatch, several

        asked = options.values.get("--asked", "[]")
        return several.run(asked, lambda argv: _told(lambda: dispatch.run(Options(argv), package)))
    if verb == "hold":
        from klops.agent.supervision.launcher import Launcher

        return Launcher(options.root, package, beside="--beside" in options.flags).run()
    if verb == "supervise":
        from klops.agent.supervision import supervisor

        launcher, beside = options.values.get("--launcher", 0), "--beside" in options.flags
        return supervisor.main(options.root, digest_of(package), package, launcher, beside=beside)
    from klops.agent.verbs import dispatch

    return dispatch.run(options, package)


def main(argv: list[str], package: str) -> int:
    """Run one verb; returns the exit status."""
    return _told(lambda: _run(Options(argv), package))


def _told(verb: Callable[[], int]) -> int:
    """What a verb ends with; what goes wrong with it is told as a JSON object."""
    try:
        return verb()
    except VerbError as failure:
        import json

        sys.stdout.write(json.dumps({"error": failure.as_json()}) + "\n")
        return 2 if failure.code == "usage" else 1
    except KeyboardInterrupt:
        return 130
