from __future__ import annotations

import logging

import pytest
import structlog

from klops.log import get_logger
from klops.secret import Redactor, Secret
from klops.ui.logs import configure

KEY = "made-up-secret"


@pytest.fixture(autouse=True)
def _restore() -> object:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_the_log_goes_to_standard_error_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    redactor = Redactor()
    redactor.add(Secret(KEY))
    configure(1, redactor)
    get_logger("a test").info("connected", host="a", key=KEY, listed=[KEY])
    logging.getLogger("some.library").warning("it said %s", KEY)
    try:
        int(KEY)
    except ValueError:
        get_logger("a test").exception("failed")
    out, err = capsys.readouterr()
    assert out == ""
    assert "connected" in err
    assert "it said ********" in err
    assert "ValueError" in err
    assert KEY not in err


def test_the_level_follows_v(capsys: pytest.CaptureFixture[str]) -> None:
    configure(0, Redactor())
    get_logger("a test").info("quiet")
    get_logger("a test").warning("loud")
    err = capsys.readouterr().err
    assert "quiet" not in err
    assert "loud" in err
