"""Filters and tests for texts: regular expressions, quoting, comments, URLs, base64."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus, unquote_plus, urlsplit

from klops.playbook.template.filters.given import kind, text, wrong

_GROUP = re.compile(r"\\(?:g<(?P<name>\w+)>|(?P<number>\d+))")
_POSIX_SPECIAL = re.compile(r"([].[^$*\\])")
#: RFC 3986: a scheme, and something after it
_URI = re.compile(r"(?i:(?P<scheme>[a-z][a-z0-9+.-]*)):(?P<rest>[^\s]+)")


def _flags(ignorecase: bool, multiline: bool) -> re.RegexFlag:
    none = re.RegexFlag(0)
    return (re.IGNORECASE if ignorecase else none) | (re.MULTILINE if multiline else none)


def _pattern(pattern: Any, ignorecase: bool = False, multiline: bool = False) -> re.Pattern[str]:
    try:
        return re.compile(text(pattern), _flags(ignorecase, multiline))
    except re.error as error:
        raise wrong(f"the regular expression {text(pattern)!r}: {error}") from None


def regex_search(
    value: Any, regex: str, *groups: str, ignorecase: bool = False, multiline: bool = False
) -> Any:
    """What matches first, or the groups asked for (``'\\\\1'``, ``'\\\\g<name>'``); null for no match."""
    match = _pattern(regex, ignorecase, multiline).search(text(value))
    names = []
    for group in groups:
        asked = _GROUP.fullmatch(str(group))
        if asked is None:
            raise wrong(f"regex_search: {group!r} is no group: write '\\1' or '\\g<name>'")
        names.append(asked["name"] or int(asked["number"]))
    if match is None:
        return None
    try:
        return [match.group(name) for name in names] if names else match.group()
    except IndexError:
        raise wrong(f"regex_search: {regex!r} lacks one of the groups {', '.join(groups)}") from None


def regex_findall(value: Any, regex: str, multiline: bool = False, ignorecase: bool = False) -> list[Any]:
    """All that matches; of a regex with groups the groups."""
    return _pattern(regex, ignorecase, multiline).findall(text(value))


def regex_replace(
    value: Any,
    pattern: str = "",
    replacement: str = "",
    ignorecase: bool = False,
    multiline: bool = False,
    count: int = 0,
    mandatory_count: int = 0,
) -> str:
    """The text with ``replacement`` (``\\\\1`` is a group) for what matches, at most ``count`` times."""
    compiled = _pattern(pattern, ignorecase, multiline)
    try:
        found, times = compiled.subn(text(replacement), text(value), count=count)
    except (re.error, IndexError) as error:
        raise wrong(f"regex_replace: the replacement {replacement!r}: {error}") from None
    if mandatory_count and times != mandatory_count:
        raise wrong(f"regex_replace: {mandatory_count} matches were expected, {times} found")
    return found


def regex_escape(value: Any, re_type: str = "python") -> str:
    """The text as a regular expression for itself; ``re_type`` is python or posix_basic."""
    if re_type == "python":
        return re.escape(text(value))
    if re_type == "posix_basic":
        return _POSIX_SPECIAL.sub(r"\\\1", text(value))
    raise wrong(f"regex_escape: {re_type!r} is neither python nor posix_basic")


def split(value: Any, separator: str | None = None, maxsplit: int = -1) -> list[str]:
    """Parts between separators; by default between white space."""
    return text(value).split(separator, maxsplit)


_STYLES = {
    "plain": {"decoration": "# "},
    "erlang": {"decoration": "% "},
    "c": {"decoration": "// "},
    "cblock": {"beginning": "/*", "decoration": " * ", "end": " */"},
    "xml": {"beginning": "<!--", "decoration": " - ", "end": "-->"},
}


def comment(value: Any, style: str = "plain", **options: Any) -> str:
    """The text as a comment: plain, c, cblock, erlang, xml, or of ``decoration``, ``beginning`` and so on."""
    if style not in _STYLES:
        raise wrong(f"comment: {style!r} is none of {', '.join(_STYLES)}")
    given = {"newline": "\n", "beginning": "", "end": "", "prefix_count": 1, "postfix_count": 1}
    known = {*given, "decoration", "prefix", "postfix"}
    if options.keys() - known:
        raise wrong(f"comment: {min(options.keys() - known)!r} is none of {', '.join(sorted(known))}")
    o: dict[str, Any] = {**given, **_STYLES[style], **options}
    newline, decoration = o["newline"], o["decoration"]
    edge = {side: o.get(side, decoration.rstrip()) + newline for side in ("prefix", "postfix")}
    lines = [(decoration + line if line else decoration.rstrip()) for line in text(value).split(newline)]
    return "".join(
        (
            o["beginning"] + newline if o["beginning"] else "",
            edge["prefix"] * o["prefix_count"],
            newline.join(lines),
            newline * bool(o["postfix_count"] or o["end"]),
            (edge["postfix"] * o["postfix_count"]).removesuffix("" if o["end"] else newline),
            o["end"],
        )
    )


def b64encode(value: Any, encoding: str = "utf-8", urlsafe: bool = False) -> str:
    """Base64 of the text's bytes."""
    work = base64.urlsafe_b64encode if urlsafe else base64.b64encode
    return work(text(value).encode(encoding)).decode("ascii")


def b64decode(value: Any, encoding: str = "utf-8", urlsafe: bool = False) -> str:
    """The text whose bytes the base64 stands for."""
    work = base64.urlsafe_b64decode if urlsafe else base64.b64decode
    try:
        return work(text(value)).decode(encoding)
    except ValueError as error:
        raise wrong(f"b64decode: {error}") from None


def urlencode(value: Any) -> str:
    """A text for a URL's path, or pairs as a query string."""
    if isinstance(value, str):
        return quote(value, safe="/")
    pairs = value.items() if hasattr(value, "items") else value
    try:
        return "&".join(f"{quote_plus(text(key))}={quote_plus(text(item))}" for key, item in pairs)
    except (TypeError, ValueError):
        return quote(text(value), safe="/")


def url_parts(value: Any, query: str = "") -> Any:
    """The parts of a URL, or the one asked for."""
    parts = urlsplit(text(value))
    names = ("fragment", "hostname", "netloc", "password", "path", "port", "query", "scheme", "username")
    if not query:
        return {name: getattr(parts, name) for name in names}
    if query not in names:
        raise wrong(f"urlsplit: {query!r} is none of {', '.join(names)}")
    return getattr(parts, query)


def regex(
    value: Any, pattern: str, ignorecase: bool = False, multiline: bool = False, match_type: str = "search"
) -> bool:
    """Whether the text matches: anywhere (search), from its start (match) or as a whole (fullmatch)."""
    if match_type not in ("search", "match", "fullmatch"):
        raise wrong(f"regex: match_type {match_type!r} is none of search, match, fullmatch")
    compiled = _pattern(pattern, ignorecase, multiline)
    return getattr(compiled, match_type)(text(value)) is not None


def match(value: Any, pattern: str, ignorecase: bool = False, multiline: bool = False) -> bool:
    """Whether the text begins with what matches."""
    return regex(value, pattern, ignorecase, multiline, "match")


def search(value: Any, pattern: str, ignorecase: bool = False, multiline: bool = False) -> bool:
    """Whether something in the text matches."""
    return regex(value, pattern, ignorecase, multiline)


def _scheme(value: Any, schemes: Any) -> str:
    found = _URI.fullmatch(value) if isinstance(value, str) else None
    return found["scheme"].lower() if found and (not schemes or found["scheme"] in schemes) else ""


def is_uri(value: Any, schemes: Any = None) -> bool:
    """Whether the text is a URI, of one of ``schemes``."""
    return bool(_scheme(value, schemes))


def is_url(value: Any, schemes: Any = None) -> bool:
    """Whether the text is a URI that names a host."""
    return is_uri(value, schemes) and bool(urlsplit(value).netloc)


def is_urn(value: Any) -> bool:
    """Whether the text is a URN."""
    return _scheme(value, None) == "urn"


def _quoted(value: Any) -> str:
    """The text as one word for a POSIX shell."""
    return shlex.quote("" if value is None else text(value))


def _decoded(value: Any) -> str:
    """The text with ``%XX`` and ``+`` decoded."""
    if not isinstance(value, str):
        raise wrong(f"urldecode takes a text, not {kind(value)}")
    return unquote_plus(value)


FILTERS: dict[str, Callable[..., Any]] = {
    "b64decode": b64decode,
    "b64encode": b64encode,
    "comment": comment,
    "quote": _quoted,
    "regex_escape": regex_escape,
    "regex_findall": regex_findall,
    "regex_replace": regex_replace,
    "regex_search": regex_search,
    "split": split,
    "urldecode": _decoded,
    "urlencode": urlencode,
    "urlsplit": url_parts,
}
TESTS: dict[str, Callable[..., bool]] = {
    "match": match,
    "regex": regex,
    "search": search,
    "uri": is_uri,
    "url": is_url,
    "urn": is_urn,
}
