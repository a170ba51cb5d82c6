"""Builders of git command lines.

Those with a folder are run in the user's repository, with the user's configuration; so are :func:`tags` and
:func:`setting`, which find it by GIT_DIR. The others are for a git folder of our own, where only what stands
here has a say.
"""

from __future__ import annotations

from collections.abc import Sequence

#: The attributes that say how text is to be treated, and which files have placeholders.
ATTRIBUTES = ("text", "crlf", "eol", "working-tree-encoding", "export-subst")
#: Over any default that depends on the system or on the size of the repository.
_PLAIN = (
    "core.autocrlf=false",
    "core.eol=lf",
    "core.abbrev=12",
    "core.quotePath=false",
    "core.longPaths=true",
)
#: What differs is looked for in the files, and no program is asked for it (empty: old gits take ``false`` for
#: the name of one).
_FILES = ("core.fsmonitor=",)
#: For a snapshot: refuses no line ending, runs no hook, keeps its index in one file, packs nothing tightly.
_SNAPSHOT = (
    *_FILES,
    "core.safecrlf=false",
    "core.hooksPath=/dev/null",
    "core.splitIndex=false",
    "core.looseCompression=0",
)
#: The folder is named by the user, who needs no protection from a bare repository there.
_NAMED = ("safe.bareRepository=all",)


def _with(settings: Sequence[str]) -> tuple[str, ...]:
    return ("git", *(word for setting in settings for word in ("-c", setting)))


def where(folder: str) -> tuple[str, ...]:
    """Six lines: bare, in a work tree, git folder, common folder, object format, path below the top."""
    asked = ("--is-bare-repository", "--is-inside-work-tree", "--absolute-git-dir", "--git-common-dir")
    return (*_with(_NAMED), "-C", folder, "rev-parse", *asked, "--show-object-format", "--show-prefix")


def objects(folder: str) -> tuple[str, ...]:
    """The objects named on standard input, one a line."""
    return (*_with(_NAMED), "-C", folder, "cat-file", "--batch")


def status(folder: str) -> tuple[str, ...]:
    """What differs from HEAD in index and work tree, whatever the configuration would leave out."""
    shown = ("--untracked-files=all", "--ignore-submodules=none", "--no-renames", "--no-show-stash")
    return (*_with(_FILES), "-C", folder, "status", "--porcelain=v2", "-z", *shown)


def add_all(folder: str, *, sparse: bool) -> tuple[str, ...]:
    """Everything of the work tree into the index that the environment names.

    ``sparse``: also what isn't of a sparse checkout and lies there all the same. Git 2.34 and newer leaves
    that out otherwise; an older one doesn't know the option (status 129), and takes it.
    """
    more = ("--sparse",) if sparse else ()
    return (*_with(_SNAPSHOT), "-C", folder, "add", "--all", *more, "--", ":/")


def write_tree(folder: str) -> tuple[str, ...]:
    """That index as a tree; prints its id."""
    return (*_with(_SNAPSHOT), "-C", folder, "write-tree")


def tags() -> tuple[str, ...]:
    """All tags: id, name, and the id of what an annotated one stands for."""
    form = "--format=%(objectname) %(refname) %(*objectname)"
    return ("git", "for-each-ref", form, "refs/tags")


def setting(key: str) -> tuple[str, ...]:
    """One setting; status 1 when it isn't set."""
    return ("git", "config", "-z", "--get", key)


def tree(treeish: str) -> tuple[str, ...]:
    """All entries of a tree but folders."""
    return (*_with(_PLAIN), "ls-tree", "-r", "-z", "--full-tree", treeish)


def index(treeish: str) -> tuple[str, ...]:
    """The tree into an index, where its attributes are looked for."""
    return (*_with(_PLAIN), "read-tree", treeish)


def attributes() -> tuple[str, ...]:
    """:data:`ATTRIBUTES` of the paths on standard input (each ended by a zero byte)."""
    return (*_with(_PLAIN), "check-attr", "--cached", "-z", "--stdin", *ATTRIBUTES)


def archive(treeish: str, paths: Sequence[str] = ()) -> tuple[str, ...]:
    """The tree, or these paths of it, as a tar."""
    return (*_with(_PLAIN), "archive", "--format=tar", treeish, *(("--", *paths) if paths else ()))


def settings_of(blob: str) -> tuple[str, ...]:
    """The settings in a blob of git's own form (a .gitmodules)."""
    return (*_with(_PLAIN), "config", "--blob", blob, "-z", "--list")
