"""Text files of models: read as a whole, gzipped or not, with the line of what is wrong; the numbers in them."""
from __future__ import annotations

import gzip
import math
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from jitfuse.base.files import write_whole
from jitfuse.base.records import Record
from jitfuse.errors import ModelError

_GZIP: Final = b"\x1f\x8b"
_CHUNK: Final = 1 << 20  # characters whose numbers are Python objects at the same time
_MOST_WHOLE: Final = 2 ** 53  # past it doubles are not exact


class Text(Record, frozen=True):
    """What a file says, and its name for messages."""

    name: str
    content: str

    def error(self, offset: int, expected: str, found: str) -> ModelError:
        """Return the error that names the line at an offset."""
        line = self.content.count("\n", 0, offset) + 1
        return ModelError(f"{self.name}:{line}: expected {expected}, found {found}")

    def error_at(self, tokens: Iterable[re.Match[str]], number: int, expected: str, found: str) -> ModelError:
        """Return the error for one of the text's tokens, or for the end of the file; `found` in place of the token."""
        token = next(islice(tokens, number, None), None)
        if token is None:
            return self.error(len(self.content.rstrip()), expected, found or "the end of the file")
        return self.error(token.start(), expected, found or token[0])


def read_text(path: str | os.PathLike[str]) -> Text:
    """Read a file in UTF-8, gzipped or not; ModelError for one without text, OSError for one that cannot be read."""
    name, data = os.fspath(path), Path(path).read_bytes()
    if data.startswith(_GZIP):
        try:
            data = gzip.decompress(data)
        except (EOFError, OSError, zlib.error) as error:
            raise ModelError(f"{name}:1: expected a gzipped text, found a damaged file ({error})") from None
    try:
        content = data.decode("utf-8-sig")
        binary = content.find("\0")
    except UnicodeDecodeError as error:
        content, binary = data[:error.start].decode("latin-1"), error.start
    text = Text(name, content)
    if binary >= 0:
        raise text.error(binary, "text in UTF-8", f"the byte {data[binary]:#04x}: the file is binary")
    if not content.strip():
        raise text.error(0, "a text", "an empty file")
    return text


def write_text(path: str | os.PathLike[str], content: str) -> None:
    """Replace a file as a whole, gzipped where its name ends in .gz: the same bytes for the same content."""
    data = content.encode()
    write_whole(path, gzip.compress(data, mtime=0) if os.fspath(path).endswith(".gz") else data)


class Numbers:
    """The numbers of a text from an offset on, between white space, taken one after the other."""

    def __init__(self, text: Text, start: int) -> None:
        self.text, self.start, self.position = text, start, 0
        self.values = np.concatenate([np.empty(0), *map(self._parse, _chunks(text.content, start))])
        self._cells = self.values.data  # quicker where few numbers are taken

    def _parse(self, chunk: tuple[int, int]) -> np.ndarray:
        part = self.text.content[chunk[0]:chunk[1]]
        try:
            if "_" not in part and part.isascii():  # Python's float takes 1_0 and digits of other scripts
                return np.array(list(map(float, part.split())))
        except ValueError:
            pass
        word = next(word for word in re.finditer(r"\S+", part) if not is_number(word[0]))
        raise self.text.error(chunk[0] + word.start(), "a number", repr(word[0]))

    def error(self, position: int, expected: str, found: str = "") -> ModelError:
        """Return the error for the number at a position, or for the end of the file."""
        words = re.compile(r"\S+").finditer(self.text.content, self.start)
        return self.text.error_at(words, position, expected, found)

    def take(self, count: int, expected: str) -> np.ndarray:
        """Return the next numbers; `expected` is for the message where there are too few."""
        start = self._pass(count, expected)
        return self.values[start:start + count]

    def _pass(self, count: int, expected: str) -> int:
        """Go on by so many numbers, and return where they begin."""
        start = self.position
        left = len(self.values) - start
        if count > left:
            found = f"{left} more before the end of the file" if left else ""
            raise self.error(len(self.values), expected if count == 1 else f"{count} numbers: {expected}", found)
        self.position += count
        return start

    def wholes(self, count: int, expected: str, least: int = 0, below: int = _MOST_WHOLE) -> list[int]:
        """Return the next numbers, which have to be whole ones within bounds."""
        start = self._pass(count, expected)
        values = self._cells[start:start + count].tolist()
        for at, value in enumerate(values, start):
            if not (least <= value < below and value % 1 == 0):
                bounds = f"from {least} to {below - 1}" if below < _MOST_WHOLE else f"from {least}"
                raise self.error(at, f"{expected}, a whole number {bounds}")
        return list(map(int, values))

    def whole(self, expected: str, least: int = 0, below: int = _MOST_WHOLE) -> int:
        """Return the next number, which has to be a whole one within bounds."""
        return self.wholes(1, expected, least, below)[0]

    def end(self, what: str) -> None:
        """Raise for numbers that are left over."""
        if self.position < len(self.values):
            left = len(self.values) - self.position
            raise self.error(self.position, f"the end of the file after {what}", f"{left} more numbers")


def _chunks(content: str, start: int) -> Iterator[tuple[int, int]]:
    space = re.compile(r"\s")
    while start < len(content):
        cut = space.search(content, start + _CHUNK)
        end = cut.start() if cut else len(content)
        yield start, end
        start = end


def is_number(word: str) -> bool:
    """Return whether a word is a number, infinity included, as C writes it."""
    try:
        return "_" not in word and word.isascii() and not math.isnan(float(word))
    except ValueError:
        return False
