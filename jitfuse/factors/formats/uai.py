"""Models and evidence in the format of the UAI inference competitions; see `uai_results` for their answers.

Words stand between any white space. A model is MARKOV or BAYES, the number of variables, the number of states of each,
the number of factors, each factor's scope (a count, then variables 0, 1, ...), and each factor's table (a count, then
numbers; the last variable of the scope runs fastest). Tables of BAYES are not checked for sums.
"""
from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import numpy as np

from jitfuse.errors import ModelError
from jitfuse.factors.formats.model import Model
from jitfuse.factors.formats.text import Numbers, Text, read_text, write_text

_KINDS: Final = ("MARKOV", "BAYES")
_MOST_AXES: Final = 64
"""Of NumPy's arrays."""


def header(text: Text, choices: Sequence[str]) -> tuple[str, int]:
    """Return the first word of a text, one of the choices, and the offset behind it."""
    word = re.compile(r"\s*(\S+)").match(text.content)
    assert word is not None, "a text is not empty"
    if word[1].upper() not in choices:
        raise text.error(word.start(1), " or ".join(choices), repr(word[1][:40]))
    return word[1].upper(), word.end()


def read_model(path: str | os.PathLike[str], evidence: str | os.PathLike[str] | None = None) -> Model:
    """Read a model, gzipped or not, and the file of its evidence, if any, which has to hold one sample.

    Raises ModelError with file and line for what does not follow the format, or a negative or infinite number or NaN.

    Example:
        >>> model = read_model("asia.uai", "asia.uai.evid")
        >>> model.sizes[0], model.evidence
        (2, {5: 1})
    """
    text = read_text(path)
    numbers = Numbers(text, header(text, _KINDS)[1])
    sizes = numbers.wholes(numbers.whole("the number of variables"), "the number of states of each variable", 1)
    scopes = [_read_scope(numbers, factor, len(sizes)) for factor in range(numbers.whole("the number of factors"))]
    factors = tuple(
        (scope, _read_table(numbers, factor, [sizes[v] for v in scope])) for factor, scope in enumerate(scopes)
    )
    numbers.end("the last table")
    good = (numbers.values >= 0) & (numbers.values < math.inf)
    if not good.all():
        raise numbers.error(int(np.argmin(good)), "a finite number from 0 up")
    samples: tuple[dict[int, int], ...] = ({},) if evidence is None else read_evidence(evidence, sizes)
    if len(samples) > 1:
        raise ModelError(f"{evidence}:1: expected the evidence of one sample, found {len(samples)} samples")
    return Model(dict(enumerate(sizes)), factors, {}, samples[0])


def _read_scope(numbers: Numbers, factor: int, variables: int) -> tuple[int, ...]:
    count = numbers.whole(f"the number of variables of factor {factor}")
    scope = numbers.wholes(count, f"a variable of factor {factor}", 0, variables)
    if len(set(scope)) < count:
        again = next(at for at, variable in enumerate(scope) if variable in scope[:at])
        found = f"{scope[again]} for the second time"
        raise numbers.error(numbers.position - count + again, f"another variable of factor {factor}", found)
    if count > _MOST_AXES:
        limit = f"at most {_MOST_AXES} variables of factor {factor}, as many as NumPy has axes"
        raise numbers.error(numbers.position - count - 1, limit)
    return tuple(scope)


def _read_table(numbers: Numbers, factor: int, shape: list[int]) -> np.ndarray:
    size = math.prod(shape)
    count = numbers.whole(f"the size of the table of factor {factor}")
    if count != size:
        raise numbers.error(numbers.position - 1, f"{size}, the size of the table of factor {factor}")
    return numbers.take(size, f"the table of factor {factor}").reshape(shape)


def write_model(path: str | os.PathLike[str], model: Model, kind: Literal["MARKOV", "BAYES"] = "MARKOV") -> None:
    """Write a model, gzipped where the name ends in .gz; its variables become 0, 1, ... in their order.

    The numbers read back equal. The names of variables and states are lost, the evidence has a file of its own.
    ModelError where a model to be written as BAYES is no Bayesian network.

    Example:
        >>> write_model("asia.uai.gz", model)
    """
    if kind == "BAYES":
        model.check_children()
    number = {variable: at for at, variable in enumerate(model.sizes)}
    lines = [kind, str(len(number)), " ".join(map(str, model.sizes.values())), str(len(model.factors))]
    lines += [" ".join(map(str, (len(scope), *(number[v] for v in scope)))) for scope, _ in model.factors]
    for _, table in model.factors:
        lines += ["", str(table.size), " ".join(map(repr, np.asarray(table, np.float64).ravel().tolist()))]
    write_text(path, "\n".join(lines) + "\n")


def read_evidence(path: str | os.PathLike[str], sizes: Sequence[int]) -> tuple[dict[int, int], ...]:
    """Read {variable: state} of each sample of a file of evidence, for variables of these sizes.

    Both dialects are known: a count and pairs of variable and state (UAI 2014), and a number of samples, then that much
    for each sample (UAI 2008 and 2010). Some files can be read either way. They are taken as several samples where each
    sample, and their number, has a line of its own, otherwise as one. "0" is one sample without evidence.

    Example:
        >>> read_evidence("asia.uai.evid", [2] * 8)
        ({5: 1},)
    """
    text = read_text(path)
    numbers = Numbers(text, 0)
    values = numbers.wholes(len(numbers.values), "a count, variable, or state")
    samples = _samples(values)
    if len(values) == 1 + 2 * values[0] and not (samples and _stand_in_lines(text, samples)):
        samples = [(1, len(values))]
    if not samples:
        found = f"{len(values)} numbers"
        raise numbers.error(len(values), "a count and as many pairs, or a number of samples and this for each", found)
    return tuple(_pairs(numbers, values, start, end, sizes) for start, end in samples)


def _samples(values: Sequence[int]) -> list[tuple[int, int]] | None:
    """Return where the pairs of each sample begin and end where the first number is that of samples."""
    spans, at = [], 1
    for _ in range(values[0]):
        if at >= len(values):
            return None
        spans.append((at + 1, at + 1 + 2 * values[at]))
        at = spans[-1][1]
    return spans if at == len(values) else None


def _stand_in_lines(text: Text, samples: Sequence[tuple[int, int]]) -> bool:
    words = [len(line.split()) for line in text.content.splitlines()]
    return [count for count in words if count] == [1, *(end - start + 1 for start, end in samples)]


def _pairs(numbers: Numbers, values: list[int], start: int, end: int, sizes: Sequence[int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for at in range(start, end, 2):
        variable, state = values[at:at + 2]
        if variable >= len(sizes):
            raise numbers.error(at, f"a variable from 0 to {len(sizes) - 1}")
        if variable in found:
            raise numbers.error(at, "another variable", f"{variable} for the second time")
        if state >= sizes[variable]:
            raise numbers.error(at + 1, f"a state from 0 to {sizes[variable] - 1} of variable {variable}")
        found[variable] = state
    return found


def write_evidence(
    path: str | os.PathLike[str], evidence: Mapping[int, int] | Sequence[Mapping[int, int]],
) -> None:
    """Write a file of evidence: one sample as in 2014; a sequence with the number of samples, as in 2008 and 2010.

    Example:
        >>> write_evidence("asia.uai.evid", {5: 1})
    """
    if isinstance(evidence, Mapping):
        return write_text(path, _line(evidence) + "\n")
    if not evidence:
        raise ModelError(f"{os.fspath(path)}: the format has no file with the evidence of 0 samples")
    return write_text(path, "\n".join([str(len(evidence)), *map(_line, evidence)]) + "\n")


def _line(evidence: Mapping[int, int]) -> str:
    return " ".join(map(str, [len(evidence), *(number for pair in evidence.items() for number in pair)]))
