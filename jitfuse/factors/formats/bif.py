"""Bayesian networks in the Interchange Format (BIF 0.15), as the bnlearn repository has them.

Blocks may stand in any order; commas stand for white space; a name with white space, brackets, or one of ; , | " has
quotes. Properties and comments are skipped. Text between blocks, which the format allows, is an error: a misspelt block
would be lost. Rows that no parents' states name take the numbers of `default`; without it, each has to be there. The
format does not say that probabilities sum to 1, and published files are rounded: sums are checked within a tolerance.
"""
from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from jitfuse.errors import ModelError
from jitfuse.factors.formats.model import Model
from jitfuse.factors.formats.text import Text, is_number, read_text, write_text

_WORD: Final = r'(?:(?!/[/*])[^\s{}()\[\],;|"])+'
_TOKEN: Final = re.compile(rf'/\*.*?\*/|//[^\n]*|"(?:[^"\\]|\\.)*"|{_WORD}|/\*|[^\s,]', re.DOTALL)
_SIGNS: Final = frozenset(("", "/*", *'{}()[];|"'))
"""Tokens that are no names: the end, the beginning of a comment or name without end, and the format's own."""
_PLAIN: Final = re.compile(r"[\w.<>=+-]+")
_END: Final = ""


def _is_comment(token: str) -> bool:
    return token.startswith(("//", "/*")) and token != "/*"


class _Tokens:
    """The words and signs of a text, one after the other; names keep their quotes until they are taken."""

    def __init__(self, text: Text) -> None:
        self.text, self.position = text, 0
        self._all: list[str] = [token for token in _TOKEN.findall(text.content) if not _is_comment(token)]
        self._all.append(_END)

    def error(self, expected: str, position: int | None = None, found: str = "") -> ModelError:
        """Return the error for the next token, or for the one at a position."""
        at = self.position if position is None else position
        tokens = (token for token in _TOKEN.finditer(self.text.content) if not _is_comment(token[0]))
        return self.text.error_at(tokens, at, expected, found)

    def next(self) -> str:
        """Return the next token without taking it; "" at the end."""
        return self._all[self.position]

    def skip(self, *signs: str) -> None:
        """Take these tokens."""
        for sign in signs:
            if self._all[self.position] != sign:
                raise self.error(repr(sign))
            self.position += 1

    def skip_past(self, sign: str) -> None:
        """Take everything up to and with a sign."""
        try:
            self.position = self._all.index(sign, self.position) + 1
        except ValueError:
            self.position = len(self._all) - 1
            raise self.error(repr(sign)) from None

    def names(self, what: str, end: str) -> list[str]:
        """Take names up to and with a sign."""
        found = []
        while self.next() != end:
            found.append(self.name(what))
        self.position += 1
        return found

    def name(self, what: str) -> str:
        """Take one name, without its quotes."""
        token = self.next()
        if token.startswith('"') and len(token) > 1:
            self.position += 1
            return re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)
        if token in _SIGNS:
            raise self.error(what)
        self.position += 1
        return token

    def numbers(self, count: int, what: str) -> list[float]:
        """Take numbers from 0 up to a semicolon, and it."""
        first = self.position
        self.skip_past(";")
        words = self._all[first:self.position - 1]
        for at, word in enumerate(words, first):
            if not is_number(word) or not 0 <= float(word) < math.inf:
                raise self.error(f"{what}, a finite number from 0 up", at)
        if len(words) != count:
            place = min(first + count, self.position - 1)
            raise self.error(f"{what}, {count} numbers before ';'", place, f"{len(words)} numbers")
        return list(map(float, words))


def read_model(path: str | os.PathLike[str], *, tolerance: float = 0.02) -> Model:
    """Read a network, gzipped or not: a factor for each probability block, (parents, child), with names of states.

    Raises ModelError with file and line for what does not follow the format, and for a distribution whose sum is
    further from 1 than the tolerance; math.inf allows any. The numbers are those of the file, never scaled.

    Example:
        >>> model = read_model("asia.bif.gz")
        >>> model.states["smoke"], model.factors[3][0]
        (('yes', 'no'), ('smoke', 'lung'))
    """
    tokens = _Tokens(read_text(path))
    states: dict[str, tuple[str, ...]] = {}
    blocks: list[int] = []
    while tokens.next() != _END:
        if tokens.next() == "variable":
            _read_variable(tokens, states)
        elif tokens.next() == "probability":
            blocks.append(tokens.position)
            tokens.skip_past("}")
        elif tokens.next() == "network":
            tokens.skip_past("{")
            while tokens.next() == "property":
                tokens.skip_past(";")
            tokens.skip("}")
        else:
            raise tokens.error("network, variable, or probability")
    end = tokens.position
    factors: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    for tokens.position in blocks:
        _read_probability(tokens, states, factors, tolerance)
    if missing := states.keys() - factors.keys():
        tokens.position = end
        raise tokens.error(f"a probability block of {min(missing)!r}")
    return Model({name: len(found) for name, found in states.items()}, tuple(factors.values()), states, {})


def _read_variable(tokens: _Tokens, states: dict[str, tuple[str, ...]]) -> None:
    tokens.skip("variable")
    start, name = tokens.position, tokens.name("the name of a variable")
    if name in states:
        raise tokens.error("another variable", start)
    tokens.skip("{")
    while tokens.next() != "}":
        if tokens.next() == "property":
            tokens.skip_past(";")
            continue
        if name in states:
            raise tokens.error("a property or '}'")
        tokens.skip("type", "discrete", "[")
        at, count = tokens.position, tokens.name("the number of states")
        tokens.skip("]", "{")
        found = tuple(tokens.names("the name of a state", "}"))
        if not found or count != str(len(found)):
            raise tokens.error(f"{len(found)}, as many states as {name!r} has names, and at least one", at)
        if len(set(found)) < len(found):
            raise tokens.error(f"other names of states of {name!r} than {', '.join(found)}", at)
        tokens.skip(";")
        states[name] = found
    if name not in states:
        raise tokens.error(f"the type of {name!r}")
    tokens.skip("}")


def _read_probability(
    tokens: _Tokens, states: dict[str, tuple[str, ...]],
    factors: dict[str, tuple[tuple[str, ...], np.ndarray]], tolerance: float,
) -> None:
    tokens.skip("probability", "(")
    start = tokens.position
    child = tokens.name("the name of a variable")
    bar = int(tokens.next() == "|")
    tokens.position += bar
    parents = tokens.names("the name of a parent", ")")
    for at, name in enumerate([child, *parents]):
        if name not in states or name in [child, *parents][:at] or (at == 0 and name in factors):
            raise tokens.error("a variable of the file, for the first time", start + at + (bar if at else 0))
    tokens.skip("{")
    rows = np.full([len(states[name]) for name in (*parents, child)], np.nan)
    default = None
    numbers = {name: {state: at for at, state in enumerate(states[name])} for name in parents}
    while tokens.next() != "}":
        first = tokens.position
        word = tokens.next()
        tokens.position += 1
        if word == "property":
            tokens.skip_past(";")
        elif word == "default" and default is None:
            default = tokens.numbers(len(states[child]), f"the default of {child!r}")
        elif word == "table" and np.isnan(rows).all():
            found = np.array(tokens.numbers(rows.size, f"the table of {child!r}"))
            rows[:] = np.moveaxis(found.reshape(rows.shape[-1:] + rows.shape[:-1]), 0, -1)  # the child runs slowest
        elif word == "(":
            row = _read_row(tokens, parents, numbers)
            if not np.isnan(rows[row]).all():
                raise tokens.error(f"a row of {child!r} for the first time", first)
            rows[row] = tokens.numbers(len(states[child]), f"a row of {child!r}")
        else:
            raise tokens.error("a row, or a first table or default, or a property", first)
    if default is not None:
        rows[np.isnan(rows[..., 0])] = default
    _check(tokens, [*parents, child], states, rows, tolerance)
    factors[child] = (*parents, child), rows


def _read_row(tokens: _Tokens, parents: Sequence[str], numbers: dict[str, dict[str, int]]) -> tuple[int, ...]:
    start = tokens.position
    names = tokens.names("the state of a parent", ")")
    if len(names) != len(parents) or not names:
        raise tokens.error(f"a state of each of {len(parents)} parents", start)
    for at, (parent, name) in enumerate(zip(parents, names)):
        if name not in numbers[parent]:
            raise tokens.error(f"a state of {parent!r}", start + at)
    return tuple(numbers[parent][name] for parent, name in zip(parents, names))


def _check(
    tokens: _Tokens, scope: list[str], states: dict[str, tuple[str, ...]], rows: np.ndarray, tolerance: float,
) -> None:
    """Raise, at the end of the block, for a row that is missing, or whose sum is off."""
    sums = rows.sum(-1)
    good = np.abs(sums - 1) <= tolerance
    if not good.all():
        wrong = np.unravel_index(int(np.argmin(good)), good.shape)
        row = ", ".join(states[name][at] for name, at in zip(scope, wrong))
        found = "no such row" if np.isnan(sums[wrong]) else f"the sum {sums[wrong]:.6g}"
        raise tokens.error(f"probabilities of {scope[-1]!r} of sum 1 in the row ({row})", found=found)


def write_model(path: str | os.PathLike[str], model: Model) -> None:
    """Write a Bayesian network, gzipped where the name ends in .gz; it reads back equal where all names are texts.

    Other names become texts, states without a name are s0, s1, ...; the evidence is lost. Raises ModelError for what is
    no Bayesian network, or where two names are one text.

    Example:
        >>> write_model("asia.bif", model)
    """
    model.check_children()
    names = {variable: _quoted(variable) for variable in model.sizes}
    if len(set(names.values())) < len(names):
        raise ModelError(f"{os.fspath(path)}: two variables have the same name as texts")
    states = {
        variable: [_quoted(state) for state in model.states.get(variable, [f"s{at}" for at in range(size)])]
        for variable, size in model.sizes.items()
    }
    lines = ["network unknown {", "}"]
    for variable, name in names.items():
        known = ", ".join(states[variable])
        lines += [f"variable {name} {{", f"  type discrete [ {len(states[variable])} ] {{ {known} }};", "}"]
    for scope, table in model.factors:
        parents = f" | {', '.join(names[parent] for parent in scope[:-1])}" if len(scope) > 1 else ""
        lines += [f"probability ( {names[scope[-1]]}{parents} ) {{", *_rows(scope, table, states), "}"]
    write_text(path, "\n".join(lines) + "\n")


def _rows(scope: Sequence[Any], table: np.ndarray, states: dict[Any, list[str]]) -> Iterator[str]:
    rows = np.asarray(table, np.float64).reshape(-1, len(states[scope[-1]])).tolist()
    for chosen, row in zip(itertools.product(*(states[parent] for parent in scope[:-1])), rows, strict=True):
        yield f"  {'(' + ', '.join(chosen) + ')' if chosen else 'table'} {', '.join(map(repr, row))};"


def _quoted(name: object) -> str:
    word = str(name)
    return word if _PLAIN.fullmatch(word) else '"' + re.sub(r'(["\\])', r"\\\1", word) + '"'
