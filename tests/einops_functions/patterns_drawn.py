"""Random calls of einops' functions, right and wrong ones: their arrays, patterns and sizes."""
from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np

NAMES = ["a", "b", "c", "d", "e", "time", "h1", "long_name"]
DTYPES = ("float32", "float64", "int32", "int64", "bool", "float16", "complex64", "uint8")
REDUCTIONS = ("min", "max", "sum", "mean", "prod", "any", "all")


class Call(NamedTuple):
    """A call of a function by its name: its arrays, what comes behind them, and the sizes."""

    function: str
    arrays: list[np.ndarray[Any, Any]]
    rest: tuple[Any, ...]
    sizes: dict[str, int]


def array(rng: random.Random, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Return an array in one of several layouts, with a few values that repeat."""
    layout = rng.choice(["C", "C", "reversed axes", "every other", "backwards"])
    wide = tuple(2 * n for n in shape) if layout == "every other" else shape
    made = np.random.default_rng(rng.randrange(1 << 30)).integers(0, 4, size=wide).astype(dtype)
    if layout == "reversed axes":
        return np.ascontiguousarray(made.T).T
    if layout == "every other":
        return np.asarray(made[tuple(slice(None, None, 2) for _ in shape)])
    return made[::-1] if layout == "backwards" and shape else made


def grouped(rng: random.Random, names: list[str], *, dots: bool) -> list[list[str]]:
    """Return names in groups; `...` in a group of several only if it may."""
    groups: list[list[str]] = []
    for name in names:
        if groups and rng.random() < 0.35 and (dots or "..." not in (name, *groups[-1])):
            groups[-1].append(name)
        else:
            groups.append([name])
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        groups.insert(rng.randint(0, len(groups)), [])
    return groups


def written(rng: random.Random, groups: list[list[str]]) -> str:
    """Return groups as text."""
    words = []
    for group in groups:
        if not group:
            words.append(rng.choice(["1", "()", "(1)"]))
        elif len(group) > 1 or (rng.random() < 0.1 and group != ["..."]):
            words.append("(" + " ".join(group) + ")")
        else:
            words.append(group[0])
    return rng.choice([" ", "  "]).join(words)


def transform(rng: random.Random) -> Call:
    """Return a call of rearrange, reduce or repeat."""
    function = rng.choice(["rearrange", "reduce", "repeat"])
    names = rng.sample(NAMES, rng.randint(0, 5))
    sizes: dict[str, Any] = {
        name: rng.choice([1, 2, 2, 3, 4, 0] if rng.random() < 0.1 else [1, 2, 3]) for name in names}
    if rng.random() < 0.4:
        names.insert(rng.randint(0, len(names)), "...")
        sizes["..."] = tuple(rng.choice([1, 2, 3]) for _ in range(rng.randint(0, 2)))
    if function == "reduce" and rng.random() < 0.2:
        names.append("2")
        sizes["2"] = 2
    left = grouped(rng, names, dots=False)
    right_names = [name for name in names if name != "2"]
    if function == "reduce":
        right_names = [name for name in right_names if rng.random() < 0.6]
    given = {}
    if function == "repeat":
        for name in rng.sample(["n", "copy", "3"], rng.randint(0, 2)):
            right_names.append(name)
            if name != "3":
                given[name] = rng.choice([1, 2, 3])
    rng.shuffle(right_names)
    right = grouped(rng, right_names, dots=True)
    for group in left:
        for name in rng.sample(group, len(group) - rng.randint(0, 1)) if len(group) > 1 else group:
            if name not in ("...", "2") and (len(group) > 1 or rng.random() < 0.1):
                given[name] = sizes[name]
        unknown = [name for name in group if name not in given and name not in ("...", "2")]
        given |= {name: sizes[name] for name in unknown[1:]}
    shape = []
    for group in left:
        if group == ["..."]:
            shape += sizes["..."]
        else:
            shape.append(int(np.prod([sizes[name] for name in group], dtype=int)))
    text = f"{written(rng, left)}{rng.choice(['->', ' -> '])}{written(rng, right)}"
    rest = (text, rng.choice(REDUCTIONS)) if function == "reduce" else (text,)
    x = array(rng, tuple(shape), rng.choice(DTYPES))
    if x.ndim and len(x) and rng.random() < 0.1:
        return Call(function, list(map(np.asarray, x)), rest, given)
    return Call(function, [x], rest, given)


def product(rng: random.Random) -> Call:
    """Return a call of einsum."""
    sizes: dict[str, Any] = {name: rng.choice([1, 2, 3]) for name in NAMES}
    batch = tuple(rng.choice([1, 2, 3]) for _ in range(rng.randint(0, 2)))
    dtype, arrays, sides = rng.choice(["float32", "float64", "int64", "complex64"]), [], []
    for _ in range(rng.randint(1, 4)):
        names = rng.sample(NAMES[:5], rng.randint(0, 3)) + ([rng.choice(NAMES[:5])] if rng.random() < 0.1 else [])
        if rng.random() < 0.3:
            names.insert(rng.randint(0, len(names)), "...")
        shape: list[int] = []
        for name in names:
            if name == "...":
                own = batch[rng.randint(0, len(batch)) :] if rng.random() < 0.3 else batch
                shape += own
            else:
                shape.append(1 if rng.random() < 0.05 and names.count(name) == 1 else sizes[name])
        arrays.append(array(rng, tuple(shape), dtype))
        sides.append(names)
    known = sorted({name for names in sides for name in names} - {"..."})
    right = [name for name in known if rng.random() < 0.5]
    if any("..." in names for names in sides) and rng.random() < 0.95:
        right.append("...")
    rng.shuffle(right)
    return Call("einsum", arrays, (f"{', '.join(map(' '.join, sides))} -> {' '.join(right)}",), {})


def packing(rng: random.Random) -> Call:
    """Return a call of pack."""
    names = rng.sample(NAMES, rng.randint(0, 3))
    sizes = [rng.choice([1, 2, 3]) for _ in names]
    place, dtype = rng.randint(0, len(names)), rng.choice(DTYPES)
    arrays = [
        array(rng, (*sizes[:place], *(rng.choice([1, 2, 3, 0] if rng.random() < 0.05 else [1, 2, 3])
                                      for _ in range(rng.randint(0, 3))), *sizes[place:]), dtype)
        for _ in range(rng.randint(1, 4))]
    return Call("pack", arrays, (" ".join([*names[:place], "*", *names[place:]]),), {})


def unpacking(rng: random.Random) -> Call:
    """Return a call of unpack."""
    made = packing(rng)
    before = made.rest[0].split().index("*")
    behind = len(made.rest[0].split()) - before - 1
    shapes = [list(x.shape[before : x.ndim - behind]) for x in made.arrays]
    total = sum(int(np.prod(shape, dtype=int)) for shape in shapes)
    shape = made.arrays[0].shape
    if rng.random() < 0.4 and any(shapes):
        chosen = rng.choice([own for own in shapes if own])
        chosen[rng.randrange(len(chosen))] = -1
    x = array(rng, (*shape[:before], total, *shape[len(shape) - behind :]), rng.choice(DTYPES))
    return Call("unpack", [x], (shapes, *made.rest), {})


def call(rng: random.Random) -> Call:
    """Return a call that einops takes; it may be one that the library refuses."""
    return rng.choice([transform, transform, transform, product, packing, unpacking])(rng)


def mistaken(rng: random.Random) -> Call:
    """Return a call with something changed: most are mistakes."""
    made = call(rng)
    rest, sizes, arrays = list(made.rest), dict(made.sizes), list(made.arrays)
    at = 1 if made.function == "unpack" else 0
    kind = rng.choice(["drop", "double", "insert", "insert", "size", "forget", "array", "shapes"])
    text = rest[at]
    if kind in ("drop", "double") and text:
        k = rng.randrange(len(text))
        rest[at] = text[:k] + (text[k] * 2 if kind == "double" else "") + text[k + 1 :]
    elif kind == "insert":
        k = rng.randint(0, len(text))
        new = rng.choice([
            " a ", "(", ")", "...", " 1 ", " () ", " 2 ", "_", ".", "->", ",", " x", "*", "-", " ... ", "0"])
        rest[at] = text[:k] + new + text[k:]
    elif kind == "size":
        sizes[rng.choice([*sizes, "new", "_x", "a"])] = rng.choice([0, 1, 2, 5, -1])
    elif kind == "forget" and sizes:
        del sizes[rng.choice(list(sizes))]
    elif kind == "array" and arrays:
        k = rng.randrange(len(arrays))
        arrays[k] = arrays[k][None] if rng.random() < 0.5 or not arrays[k].ndim else arrays[k][..., 0:1].sum(0)
    elif kind == "shapes" and made.function == "unpack":
        own = rng.choice(rest[0])
        own.append(rng.choice([0, 1, 2, -1, -2]))
    return Call(made.function, [np.asarray(x) for x in arrays], tuple(rest), sizes)
