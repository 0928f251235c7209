"""Which files a corpus is made of: files, folders, patterns and pipes, in an order that is always the same."""

import glob
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO

from pipeline.config import CorpusConfig
from pipeline.errors import CorpusError
from pipeline.formats.streams import InputFile
from pipeline.storage import Folder, StoredFile, explain

STDIN = "-"


def list_inputs(inputs: Sequence[str], config: CorpusConfig, *, output: Folder | None = None) -> list[InputFile]:
    """The files of a corpus: inputs in the order given, the files of a folder sorted by path.

    A folder is read with all its sub-folders, each real one once, without hidden names, without `output`, and only
    files that match `config.glob`. An input that does not exist but has `*`, `?` or `[` is a pattern. The same goes for
    URLs of an object store. `-` and named pipes are read to their end here. Names are relative to the deepest folder
    that holds all inputs: a single folder's files are named within it, and a single file has its plain name.

    Raises:
        CorpusError: An input does not exist, holds no matching file or cannot be read, or two files have one name.
    """
    if not inputs:
        raise CorpusError("no input given; name files, a folder, or - for standard input")
    output_path = os.path.realpath(output.url.removeprefix("file://")) if output and output.is_local else None
    roots: list[str] = []
    found: list[tuple[str, BinaryIO | StoredFile | None]] = []
    for given in inputs:
        if given == STDIN:
            found.append(("stdin", _spooled(sys.stdin.buffer, "standard input")))
            continue
        if "://" in given.removeprefix("file://"):
            root, stored = _stored_files(given, config.glob, output)
            roots.append(root)
            found.extend(stored)
            continue
        for path in _expanded(given):
            if os.path.isdir(path):
                roots.append(os.path.abspath(path))
                files = [(file, None) for file in _walk(path, config.glob, output_path)]
                if not files:
                    raise CorpusError(f"{path}: no file in it matches {config.glob!r} (hidden ones are left out)")
                found.extend(files)
            elif os.path.isfile(path):
                roots.append(os.path.dirname(os.path.abspath(path)))
                found.append((path, None))
            else:
                found.append((os.path.basename(path), _spooled_path(path)))
    common = os.path.commonpath(roots) if roots else ""
    return _distinct(
        InputFile(name=path, content=content)
        if content is not None and not isinstance(content, StoredFile)
        else InputFile(name=os.path.relpath(path, common).replace(os.sep, "/"), content=content or Path(path))
        for path, content in found
    )


def _stored_files(url: str, pattern: str, output: Folder | None) -> tuple[str, list[tuple[str, StoredFile]]]:
    """The files of an object store that an input names: the place of their common folder, and of each its place.

    A place is made of the URL as if the scheme were the first folder of this machine, so that names can be taken
    relative to it.
    """
    scheme, _, path = url.rstrip("/").partition("://")
    parts = path.split("/")
    plain = next((count for count, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    if plain == len(parts):
        *above, name = parts
        if above:
            parent = Folder(f"{scheme}://{'/'.join(above)}")
            if parent.exists(name):
                place = "/".join(["", scheme, *above])
                return place, [(f"{place}/{name}", StoredFile(parent, name))]
    else:
        pattern = "/".join(parts[plain:])
    folder = Folder(f"{scheme}://{'/'.join(parts[:plain])}")
    place = "/".join(["", scheme, *parts[:plain]])
    # As with a local pattern, only what a pattern spells out may be hidden.
    names = [
        name
        for name in folder.walk()
        if (plain == len(parts) or "/" in pattern or "/" not in name)
        and not any(part.startswith(".") for part in name.split("/"))
        and _matches(name.split("/"), pattern)
        and not (output and f"{folder.url}/{name}".startswith(f"{output.url.rstrip('/')}/"))
    ]
    if not names:
        raise CorpusError(f"{url}: there is no such file, and no file below it matches {pattern!r}")
    return place, [(f"{place}/{name}", StoredFile(folder, name)) for name in names]


def _expanded(given: str) -> list[str]:
    if os.path.lexists(given):
        return [given]
    if not glob.has_magic(given):
        raise CorpusError(f"{given}: there is no such file or folder")
    paths = sorted(glob.glob(given, recursive=True))
    if not paths:
        raise CorpusError(f"{given}: nothing matches this pattern")
    return paths


def _walk(root: str, pattern: str, output_path: str | None) -> Iterator[str]:
    """The files below a folder, sorted by path; links are followed, but no real folder is entered twice."""
    entered = {output_path}

    def files(folder: str, inside: tuple[str, ...]) -> Iterator[str]:
        real = os.path.realpath(folder)
        if real in entered:
            return
        entered.add(real)
        try:
            names = sorted(os.listdir(folder))
        except OSError as error:
            raise CorpusError(f"{folder}: cannot be listed: {explain(error)}") from None
        for name in names:
            path, parts = os.path.join(folder, name), (*inside, name)
            if name.startswith("."):
                continue
            if os.path.isdir(path):
                yield from files(path, parts)
            # To leave out a dangling link would lose input in silence; sockets and the like hold none.
            elif _matches(parts, pattern) and (os.path.isfile(path) or not os.path.exists(path)):
                yield path

    yield from files(root, ())


def _matches(parts: Sequence[str], pattern: str) -> bool:
    """Whether a relative path matches; `**` is any number of folders, a pattern without `/` is for the name alone."""

    def match(parts: Sequence[str], patterns: Sequence[str]) -> bool:
        if not patterns:
            return not parts
        if patterns[0] == "**":
            return any(match(parts[skipped:], patterns[1:]) for skipped in range(len(parts) + 1))
        return bool(parts) and fnmatchcase(parts[0], patterns[0]) and match(parts[1:], patterns[1:])

    patterns = pattern.removeprefix("./").split("/")
    return match(parts[-1:] if len(patterns) == 1 else parts, patterns)


def _spooled_path(path: str) -> BinaryIO:
    try:
        with open(path, "rb") as pipe:
            return _spooled(pipe, path)
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read: {explain(error)}") from None


def _spooled(pipe: BinaryIO, name: str) -> BinaryIO:
    """A copy of what a pipe gives, which can be read more than once."""
    spool = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the input it holds
    try:
        shutil.copyfileobj(pipe, spool)
        spool.flush()
    except OSError as error:
        raise CorpusError(f"{name}: cannot be copied to {tempfile.gettempdir()}: {explain(error)}") from None
    return spool


def _distinct(files: Iterator[InputFile]) -> list[InputFile]:
    by_name: dict[str, InputFile] = {}
    for file in files:
        try:
            file.name.encode("utf-8")
        except UnicodeEncodeError:
            raise CorpusError(f"{file.name!r}: the name of this file is not valid UTF-8; rename it") from None
        if file.name in by_name:
            raise CorpusError(f"{file.name}: given twice, which would give its sentences the same ids twice")
        by_name[file.name] = file
    return list(by_name.values())
