"""Make a model smaller while its finding stays: the smallest example of a fault."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from factors.brute import Model


def smaller(model: Model) -> Iterator[Model]:
    """Yield models with a factor, an evidence, a variable or a state less, or with a simpler table."""
    for k in range(len(model.factors)):
        yield replace(model, factors=model.factors[:k] + model.factors[k + 1:])
    for variable in model.evidence:
        yield replace(model, evidence={v: e for v, e in model.evidence.items() if v != variable})
    used = {v for scope, _ in model.factors for v in scope} | set(model.evidence)
    for variable in model.sizes if not model.positional else ():
        if variable not in used:
            yield replace(model, sizes={v: size for v, size in model.sizes.items() if v != variable})
    if model.positional:
        yield replace(model, positional=False)
    for variable, size in model.sizes.items():
        if size > 1 and variable not in model.evidence:
            yield without_last_state(model, variable)
    for k, (scope, table) in enumerate(model.factors):
        if not callable(table):
            for simpler in simplified(np.asarray(table)):
                yield replace(model, factors=[*model.factors[:k], (scope, simpler), *model.factors[k + 1:]])


def without_last_state(model: Model, variable: object) -> Model:
    factors = []
    for scope, table in model.factors:
        cut = tuple(slice(-1) if v == variable else slice(None) for v in scope)
        factors.append((scope, table if callable(table) else np.array(np.asarray(table)[cut])))
    sizes = {v: size - (v == variable) for v, size in model.sizes.items()}
    return replace(model, factors=factors, sizes=sizes)


def simplified(table: np.ndarray) -> Iterator[np.ndarray]:
    if not table.flags.c_contiguous or not table.flags.writeable:
        yield np.array(table)
    if table.dtype.kind == "f":
        ones = np.ones_like(table)
        if not np.array_equal(ones, table):
            yield ones
        with np.errstate(all="ignore"):
            rounded = np.array([float(f"{value:.1g}") for value in table.flat], table.dtype).reshape(table.shape)
        if not np.array_equal(rounded, table):
            yield rounded


def shrink(model: Model, fails: Callable[[Model], bool], steps: int = 60) -> Model:
    """Return a model that fails in the same way, and none of those smaller by one change does."""
    for _ in range(steps):
        found = next((candidate for candidate in smaller(model) if fails(candidate)), None)
        if found is None:
            break
        model = found
    return model


def program(model: Model) -> str:
    """Return Python that builds the model."""
    def text(table: object) -> str:
        if callable(table):
            return "FUNCTION"
        array = np.asarray(table)
        return f"np.array({array.tolist()!r}, np.{array.dtype.name})".replace("inf", "np.inf")

    factors = "".join(f"    ({scope!r}, {text(table)}),\n" for scope, table in model.factors)
    evidence = f"\nevidence = {model.evidence!r}" if model.evidence else ""
    ending = "], log=True)" if model.log else "])"
    return f"g = factors.FactorGraph({model.given_sizes()!r}, [\n{factors}{ending}{evidence}"
