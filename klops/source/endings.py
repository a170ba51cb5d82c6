"""The rule for line endings. Pure; the same on every machine, and applied to its own result it changes
nothing.

A file is taken as the commit has it. The first of these that fits decides:

1. Attribute ``-text`` (also as part of ``binary``) or ``working-tree-encoding``, a byte order mark of UTF-16
   or UTF-32 at its beginning, content from LFS: not touched.
2. ``*.bat``, ``*.cmd``, ``*.ps1``: as committed; with CRLF where the attribute ``eol=crlf`` is declared for
   them. Other kinds that only Windows reads (``*.reg``, ``*.vcxproj``, ``*.psm1``, ...): with CRLF where that
   is declared, else as 3 and 4.
3. Attribute ``text``, or ``eol`` without ``text=auto``: every CR LF becomes LF. One that a CR stands before
   stays as it is, and so does every lone CR.
4. A name that is known to be text's: as 3, unless there is a zero byte in its first :data:`LONGEST_JUDGED`:
   then it is no text, and not touched.
5. A name that is known to be no text's (``*.safetensors``, ``*.model``, ``*.png``, ``*.so``, ...): not
   touched.
6. Anything else by its content, judged as git does: with a zero byte, a lone CR, or more than one control
   character in 128, or longer than :data:`LONGEST_JUDGED`, it is no text and not touched; else as 3.

``text=auto`` is the same as no attribute. ``eol=crlf`` on a kind that isn't named in 2 is not followed: what
the host gets has to run there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from itertools import chain

from klops.source.kinds import Kind, kind

#: Raised when the rule gives another result for anything: what was kept of earlier looks is then not used.
VERSION = 2
#: Bytes of a file up to which content is judged; a longer one is never held in memory as a whole.
LONGEST_JUDGED = 64 << 20
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
_CRLF = re.compile(rb"(?<!\r)\r\n")
_LONE_LF = re.compile(rb"(?<!\r)\n")
_LONE_CR = re.compile(rb"\r(?!\n)")
#: Control characters that are no sign of binary content (convert.c of git): \b \t \n \f \r and escape.
_HARMLESS = b"\b\t\n\f\r\x1b"
_CONTROL = bytes(byte for byte in (*range(32), 127) if byte not in _HARMLESS)


class Treatment(Enum):
    """What is done to a file."""

    KEEP = "keep"
    LF = "LF"
    LF_BY_NAME = "LF without a zero byte"
    LF_IF_TEXT = "LF if text"
    CRLF = "CRLF"
    CRLF_IF_TEXT = "CRLF if text"


def treatment(path: str, attributes: Mapping[str, str]) -> Treatment:
    """By name and attributes of a file (as ``git check-attr`` names their values)."""
    text = attributes.get("text", attributes.get("crlf", ""))  # crlf: the old name of text
    encoding = attributes.get("working-tree-encoding", "unset")
    if text == "unset" or encoding.lower() not in ("unset", "set", "utf-8", "utf8"):
        return Treatment.KEEP
    eol = attributes.get("eol", "")
    declared = text in ("set", "input") or (eol in ("lf", "crlf") and text != "auto")
    named = kind(path)
    if named is Kind.WINDOWS or (named is Kind.WINDOWS_IF_DECLARED and eol == "crlf"):
        if eol != "crlf":
            return Treatment.KEEP
        return Treatment.CRLF if declared else Treatment.CRLF_IF_TEXT
    if declared:
        return Treatment.LF
    if named in (Kind.TEXT, Kind.WINDOWS_IF_DECLARED):
        return Treatment.LF_BY_NAME
    return Treatment.KEEP if named is Kind.BINARY else Treatment.LF_IF_TEXT


def apply(treated: Treatment, content: bytes) -> bytes:
    """A whole file by the rule."""
    return b"".join(applied(treated, len(content), (content,)))


def applied(treated: Treatment, size: int, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """A file of ``size`` bytes by the rule, chunk by chunk; what is judged by its content in one."""
    chunks = iter(chunks)
    first = next(chunks, b"")
    if treated is Treatment.KEEP or first.startswith(_BYTE_ORDER_MARKS):
        yield first
        yield from chunks
        return
    if treated in (Treatment.LF_IF_TEXT, Treatment.CRLF_IF_TEXT):
        if size > LONGEST_JUDGED:
            yield first
            yield from chunks
            return
        whole = first + b"".join(chunks)
        if not is_text(whole):
            yield whole
            return
        first, chunks = whole, iter(())
    if treated is Treatment.LF_BY_NAME:
        no_text, chunks = _zero_within(first, chunks)
        if no_text:
            yield from chunks
            return
        first = next(chunks)
    ended = _with_crlf if treated in (Treatment.CRLF, Treatment.CRLF_IF_TEXT) else _with_lf
    held = first
    for chunk in chunks:
        # what stands before the held back line ends is neither CR nor LF, so each part can be done on its own
        done = held.rstrip(b"\r\n")
        yield ended(done)
        held = held[len(done) :] + chunk
    yield ended(held)


def is_text(content: bytes) -> bool:
    """As git judges: no zero byte, no lone CR, at most one control character in 128 others."""
    if b"\0" in content or (b"\r" in content and _LONE_CR.search(content)):
        return False
    # one ^Z at the end is how DOS ended a text
    judged = content[:-1] if content.endswith(b"\x1a") else content
    odd = len(judged) - len(judged.translate(None, _CONTROL))
    ends = judged.count(b"\n") + judged.count(b"\r")
    return (len(judged) - odd - ends) >> 7 >= odd


def _zero_within(first: bytes, chunks: Iterator[bytes]) -> tuple[bool, Iterator[bytes]]:
    """Whether a zero byte is in what is judged of a file, and all of the file."""
    taken, left, found = list[bytes](), LONGEST_JUDGED, False
    for chunk in chain((first,), chunks):
        taken.append(chunk)
        found = chunk.find(b"\0", 0, left) >= 0
        left -= len(chunk)
        if found or left <= 0:
            break
    return found, chain(taken, chunks)


def _with_lf(text: bytes) -> bytes:
    # nearly no file has one, and looking for it is ten times as fast
    return _CRLF.sub(b"\n", text) if b"\r\n" in text else text


def _with_crlf(text: bytes) -> bytes:
    return _LONE_LF.sub(b"\r\n", text)
