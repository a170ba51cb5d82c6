"""klops' log in a program that configured nothing: standard output is left alone."""

from __future__ import annotations

import subprocess
import sys


def test_without_configuration_it_writes_to_standard_error() -> None:
    program = (
        "from klops.log import get_logger\n"
        "log = get_logger('klops.test')\n"
        "log.info('quiet')\n"
        "log.warning('loud', host='a')\n"
        "try: 1 / 0\n"
        "except ZeroDivisionError: log.exception('failed')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert "loud" in done.stderr
    assert "host=a" in done.stderr
    assert "ZeroDivisionError" in done.stderr
    assert "quiet" not in done.stderr
