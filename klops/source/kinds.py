"""What the name of a file tells about it: text, unless its content tells otherwise; no text; or made for
Windows. Everything else is judged by content.
"""

from __future__ import annotations

import re
from enum import Enum


class Kind(Enum):
    """Of a file, by its name."""

    TEXT = "text"
    BINARY = "binary"
    #: scripts that Windows runs: their line endings are the author's
    WINDOWS = "windows"
    #: text that may be declared to have CRLF
    WINDOWS_IF_DECLARED = "windows if declared"
    UNKNOWN = "unknown"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


WINDOWS = _words("bat cmd ps1")
WINDOWS_IF_DECLARED = _words(
    """
    ahk csproj filters fsproj hta inf iss nsi props ps1xml psd1 psm1 rc reg sln targets vbproj vbs vcproj
    vcxproj wsf wxi wxs
    """
)
TEXT = _words(
    """
    adoc am asm awk bash bib c cc cfg cjs cl clj cmake cnf conf cpp csh css csv cu cuh cxx d
    dart desktop dockerfile ebnf el env erl ex exs f f03 f90 f95 fish fs g4 go gradle graphql groovy h hh hpp
    hrl hs htm html hxx i in inc ini inl ipp ipynb j2 java jinja jinja2 jl js json json5 jsonc jsonl jsx kt
    kts ksh less lock lua m4 mak md mdx mjs mk ml mli mm nix pbtxt php pl pm po pot properties proto ptx pxd
    pxi py pyi pyx r rb rs rst s scala scss sed service sh socket sql svg swift tcl tex thrift timer tmpl
    toml tpl tsv tsx txt v vhd vue xml xsd xsl xslt yaml yml zig zsh
    """
)
TEXT_NAMES = _words(
    """
    authors cargo.lock changelog changes cmakelists.txt codeowners containerfile contributing copying
    copyright dockerfile gemfile jenkinsfile justfile kconfig license licence maintainers makefile news notice
    pipfile procfile rakefile readme todo .bashrc .clang-format .clang-tidy .coveragerc
    .dockerignore .editorconfig .flake8 .gitattributes .gitignore .gitkeep .gitmodules .mailmap .npmrc
    .profile .pylintrc .yapfignore
    """
)
BINARY = _words(
    """
    7z a apk arrow avi avif bin bmp br bz2 ckpt class cubin dat db deb dll dylib egg eot exe fatbin feather
    flac ggml gguf gif gz h5 hdf5 heic icns ico img iso jar jpeg jpg lib lz lz4 lzma lzo mkv mo model mov mp3
    mp4 msgpack mscz npy npz o obj ogg onnx orc otf pack parquet pb pdf pickle pkl plan png pdiparams pdmodel
    psd pt pth pyc pyd pyo rar rdb rpm safetensors so spm sqlite sqlite3 tar tflite tgz tif tiff trt ttf txz
    war wasm wav webm webp whl woff woff2 xls xlsx docx pptx xz zip zst
    """
)
#: A shared library with its version behind the name.
_VERSIONED = re.compile(r"\.so(?:\.[0-9]+)+\Z")


def kind(path: str) -> Kind:
    """Of the file at a path with slashes; capitals don't matter.

    >>> kind("lib/libx.so.1.2"), kind("a/Makefile"), kind("weights/w.SafeTensors")
    (<Kind.BINARY: 'binary'>, <Kind.TEXT: 'text'>, <Kind.BINARY: 'binary'>)
    """
    name = path.rpartition("/")[2].lower()
    if name in TEXT_NAMES:
        return Kind.TEXT
    if _VERSIONED.search(name):
        return Kind.BINARY
    stem, dot, extension = name.rpartition(".")
    if not dot or not stem:
        return Kind.UNKNOWN
    for found, extensions in _BY_EXTENSION:
        if extension in extensions:
            return found
    return Kind.UNKNOWN


_BY_EXTENSION = (
    (Kind.TEXT, TEXT),
    (Kind.BINARY, BINARY),
    (Kind.WINDOWS, WINDOWS),
    (Kind.WINDOWS_IF_DECLARED, WINDOWS_IF_DECLARED),
)
