"""A diagnosis as one page that stands alone: no script, no font, no picture from elsewhere. Pure.

Its policy forbids the browser to fetch or to run anything at all, whatever a host has put into a text; and
the template escapes every value by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from klops.ui.cards import moment, node_name, or_dash
from klops.ui.doctor.advice import Step, steps
from klops.ui.doctor.chart import Chart, chart
from klops.ui.doctor.measured import Measured, Scanned, measured, scan_rows, size_text
from klops.ui.doctor.pairs import Matrix, matrix
from klops.ui.doctor.summary import cost, evidence, findings, learned, sentence, verdicts, why, worst
from klops.ui.plain import printable

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
#: Words that the style knows; any other text of a host is no name of a class.
_LOOKS = frozenset({"pass", "degraded", "fail", "unknown"})


@dataclass(frozen=True)
class _Host:
    """What the template shows of one host."""

    name: str
    look: str
    sentence: str
    why: Sequence[str]
    steps: Sequence[Step] = ()
    cards: Sequence[Mapping[str, Any]] = ()
    matrix: Matrix | None = None
    chart: Chart | None = None
    measured: Sequence[Measured] = ()
    how: Sequence[str] = ()
    scan: Sequence[Scanned] = ()


def page(found: Mapping[str, Mapping[str, Any]], errors: Mapping[str, Mapping[str, Any]]) -> str:
    """All hosts, each in a section of its own. ``errors``: by host, as JSON has them."""
    names = list(dict.fromkeys([*found, *errors]))
    return _template().render(
        title=f"Cards of {', '.join(names) if len(names) < 4 else f'{len(names)} hosts'}",
        policy=_POLICY,
        hosts=[_host(name, found.get(name, {}), errors.get(name)) for name in names],
    )


@lru_cache
def _template() -> Template:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=PackageLoader("klops.ui.doctor", "."),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda value: printable(value) if isinstance(value, str) else value,
    )
    environment.filters.update(dash=or_dash, look=_look, size=size_text, evidence=evidence, name=node_name)
    return environment.get_template("page.html.j2")


def _look(word: Any) -> str:
    return word if word in _LOOKS else ""


def _host(name: str, found: Mapping[str, Any], error: Mapping[str, Any] | None) -> _Host:
    if not verdicts(found):
        said = (error or {}).get("message") or sentence(found)
        hint = (error or {}).get("hint")
        return _Host(name, "unknown", said, [*why(found), *([hint] if hint else [])], scan=scan_rows(found))
    return _Host(
        name,
        _look(worst(found)),
        sentence(found),
        [*why(found)],
        steps(name, found),
        [_whole(card) for card in found["cards"]],
        matrix(found),
        chart(found, f"Algorithm bandwidth of all-reduce over message size, {name}"),
        measured(found),
        _how(found),
        scan_rows(found),
    )


def _whole(card: Mapping[str, Any]) -> dict[str, Any]:
    """A card with all that the template names."""
    keys = ("index", "container_index", "minor", "node", "bdf", "serial", "uuid", "verdict", "action")
    return {**dict.fromkeys(keys), **card}


def _how(found: Mapping[str, Any]) -> list[str]:
    lines = [*findings(found), *filter(None, (learned(found), cost(found)))]
    if found.get("driver"):
        lines.append(f"driver {found['driver']}")
    if found.get("at") is not None:
        lines.append(moment(found["at"]))
    return lines
