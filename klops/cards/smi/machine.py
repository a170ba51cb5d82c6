"""Reader of ``xpu-smi -m``: one line a card of 32 fields, one of them quoted.

Field meanings are those of the tool's own help. Read leniently: a driver's warning line before them, a line
cut short or a value of ``N/A`` costs that value and nothing else.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from klops.cards.identity import normalise_bdf
from klops.cards.smi.values import number, said

_BDF, _BOARD, _DEVICE, _SERIAL, _TEMPERATURE, _POWER = 0, 1, 2, 3, 4, 8
_MEMORY_USED, _MEMORY_TOTAL, _UTILISATION, _FIRMWARE, _MODEL = 17, 18, 19, 20, 21
#: Fields of a whole line.
MACHINE_FIELDS = 32
_TWO_WORDS = re.compile(r'(?<!")Invalid Argument(?!")')


@dataclass(frozen=True)
class MachineRow:
    """One line of ``-m``; None and "" where it was cut short.

    Memory in MB: the numbers of ``-q`` in MiB. Temperature in degrees Celsius, power in watts.
    """

    bdf: str
    #: first of the two number columns, "board id" in the tool's help
    index: int
    #: the second one, "dev id"; readers in the field take the one or the other, and they were seen equal only
    device: int | None = None
    serial: str = ""
    temperature: int | None = None
    power: int | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    utilisation: int | None = None
    #: ``v_init:v_bootloader:v_main.v_cpld``
    firmware: str = ""
    model: str = ""
    whole: bool = True


def _whole_values(line: str) -> str:
    """The line with quotes around the one value of two words, so that it stays one field."""
    return _TWO_WORDS.sub(r'"\g<0>"', line)


def parse_machine(text: str) -> list[MachineRow]:
    """Rows of ``xpu-smi -m``. Lines that don't start with a PCI address are noise and left out."""
    rows = []
    for line in map(_whole_values, text.splitlines()):
        try:
            fields = shlex.split(line)
        except ValueError:  # an unbalanced quote: a line cut in the middle of the model's name
            fields = line.replace('"', " ").split()
        if len(fields) <= _BOARD:
            continue
        bdf, index = normalise_bdf(fields[_BDF]), number(fields[_BOARD])
        if not bdf or index is None:
            continue
        padded = fields + [""] * (MACHINE_FIELDS - len(fields))
        rows.append(
            MachineRow(
                bdf=bdf,
                index=index,
                device=number(padded[_DEVICE]),
                serial=said(padded[_SERIAL]),
                temperature=number(padded[_TEMPERATURE]),
                power=number(padded[_POWER]),
                memory_used=number(padded[_MEMORY_USED]),
                memory_total=number(padded[_MEMORY_TOTAL]),
                utilisation=number(padded[_UTILISATION]),
                firmware=said(padded[_FIRMWARE]),
                model=said(padded[_MODEL]),
                whole=len(fields) == MACHINE_FIELDS,
            )
        )
    return rows
