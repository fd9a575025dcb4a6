"""The loops and branches of `jitfuse.control` in a trace: their functions become programs inside of one step.

Owns how carried values, scanned arrays and random numbers pass through a step. A loop with RNG calls carries the index
of its next random number, so that it generates the same numbers as the unrolled loop. Does not own the tracing of a
body (`jitfuse.tracing.record.regions`), nor what runs outside of a trace (`jitfuse.control`).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitfuse.dtypes import is_integer
from jitfuse.errors import ArgumentError, DTypeError, ShapeError, UntraceableError
from jitfuse.ir.program import Meta
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.record.regions import TracedBody, body_of, program_of, trace_body
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.results.trees import Tree, check_structure, check_type, takes_number, tree_of
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor, fresh, tensor_id

_COUNT = Meta((), "int64")


class _CarriedTree:
    """The values that a loop carries: a tree whose leaves keep their shapes and dtypes in all iterations."""

    def __init__(self, run: Recorder, name: str, init: Any) -> None:
        self.run = run
        self.name = name
        self.tree = tree_of(init, "carry")
        self.ids = [tensor_id(strong(lift(run, leaf))) for leaf in self.tree.leaves]
        self.metas = [run.graph.metas[i] for i in self.ids]

    @property
    def parameters(self) -> list[tuple[str, Meta]]:
        """The names and metas of the carried values, as parameters of a body."""
        return list(zip(self.tree.paths, self.metas, strict=True))

    def rebuilt(self, ids: Sequence[int]) -> Any:
        """Return the tree over other tensors."""
        return self.tree.filled([fresh(self.run, i) for i in ids])

    def returned(self, function: str, value: Any) -> list[int]:
        """Return the ids of the carried values that a body returns; raises where types differ from the start's."""
        new = tree_of(value, "carry")
        sides = "what the loop starts with", f"what {function} returns"
        check_structure(self.name, self.tree, new, sides)
        return [
            _as_type(self.run, lift(self.run, leaf), meta, self.name, path, sides)
            for leaf, meta, path in zip(new.leaves, self.metas, self.tree.paths, strict=True)
        ]


def strong(x: TracedTensor) -> TracedTensor:
    """Return a Python number as a value of its default dtype."""
    return x.call("astype", dtype=x._meta.dtype) if x.weak else x


def _as_type(run: Recorder, x: TracedTensor, meta: Meta, name: str, path: str, sides: tuple[str, str]) -> int:
    """Return a tensor of this type; a Python number takes the dtype where its kind allows."""
    if x.weak and not meta.shape and takes_number(meta.dtype, x._meta.dtype):
        return run.fit(tensor_id(x), (), meta.dtype)
    x = strong(x)
    check_type(name, path, (meta, x._meta), sides)
    return tensor_id(x)


def _captured(*bodies: TracedBody) -> list[int]:
    return sorted(set().union(*(body.captured for body in bodies)))


class _BodyRng:
    """The random numbers of a loop's body: whether it has RNG calls, and the index that it then carries."""

    def __init__(self, run: Recorder) -> None:
        self.run = run
        self.start = run.random_index()
        self.used = False

    def begin(self, parameter: int) -> None:
        """Count from the carried index on in the body."""
        self.run.random_calls, self.run.random_base = 0, parameter

    def end(self, parameter: int) -> list[int]:
        """Return the index after the body, if the body has RNG calls."""
        self.used = self.run.random_calls > 0 or self.run.random_base != parameter
        return [self.run.random_index()] if self.used else []

    def go_on(self, index: int) -> None:
        """Count from this index on after the loop."""
        self.run.random_calls, self.run.random_base = 0, index


def _loop_body(
    run: Recorder, name: str, first: list[tuple[str, Meta]], call: Callable[[list[int]], list[int]], carries: int
) -> tuple[TracedBody, _BodyRng]:
    """Trace a body whose last parameter is the next random number's index; it is returned after the carried values."""
    rng = _BodyRng(run)

    def traced(ids: list[int]) -> list[int]:
        rng.begin(ids[-1])
        out = call(ids[:-1])
        return [*out[:carries], *rng.end(ids[-1]), *out[carries:]]

    return trace_body(run, name, [*first, ("random index", _COUNT)], traced), rng


# ---------------------------------------------------------------- loops
def while_loop(run: Recorder, cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], init: Any) -> Any:
    """Record a loop that continues while `cond_fn` of the carried values holds."""
    carried = _CarriedTree(run, "while_loop", init)

    def condition(ids: list[int]) -> list[int]:
        before = run.random_calls, run.random_base
        chosen = _choice(run, cond_fn(carried.rebuilt(ids)), "cond_fn of while_loop")
        if (run.random_calls, run.random_base) != before:
            raise UntraceableError(f"cond_fn of while_loop draws random numbers, at {user_line()}: draw in body_fn")
        return [chosen]

    def body(ids: list[int]) -> list[int]:
        return carried.returned("body_fn", body_fn(carried.rebuilt(ids)))

    count = len(carried.ids)
    tested = trace_body(run, "cond_fn of while_loop", carried.parameters, condition)
    looped, rng = _loop_body(run, "body_fn of while_loop", carried.parameters, body, count)
    metas = [*carried.metas, *[_COUNT] * rng.used]
    captured = _captured(tested, looped)
    attrs = {
        "condition": program_of(run.session, tested, _slots([*tested.parameters, None], metas), captured),
        "body": program_of(run.session, looped, _slots(looped.parameters, metas), captured),
        "carries": len(metas),
    }
    return _finished(run, "while_loop", [], carried, rng, captured, attrs)[0]


def _slots(parameters: Sequence[int | None], metas: Sequence[Meta]) -> list[tuple[int | None, Meta]]:
    return list(zip(parameters, metas, strict=False))


def _finished(
    run: Recorder, name: str, lead: list[int], carried: _CarriedTree, rng: _BodyRng, others: list[int],
    attrs: dict[str, Any],
) -> tuple[Any, list[int]]:
    """Emit a loop; return the resulting carried tree, and the ids of further results."""
    operands = (*lead, *carried.ids, *[rng.start] * rng.used, *others)
    body = attrs["body"]
    if not body.outputs:
        return carried.rebuilt([]), []
    results = run.emit_all(name, operands, attrs)
    count = len(carried.ids)
    if rng.used:
        rng.go_on(results[count])
    return carried.rebuilt(results[:count]), list(results[count + rng.used :])


def fori_loop(run: Recorder, lower: Any, upper: Any, body_fn: Callable[[Any, Any], Any], init: Any) -> Any:
    """Record a loop over the integers from `lower` to below `upper`."""
    if run.differentiated:  # the reverse mode needs the number of rounds: a guard
        lower, upper = (v.known() if isinstance(v, TracedTensor) and v.weak else v for v in (lower, upper))
    bounds = [_bound(run, lower, "lower"), _bound(run, upper, "upper")]
    carried = _CarriedTree(run, "fori_loop", init)

    def body(ids: list[int]) -> list[int]:
        return carried.returned("body_fn", body_fn(fresh(run, ids[0]), carried.rebuilt(ids[1:])))

    first = [("i", _COUNT), *carried.parameters]
    looped, rng = _loop_body(run, "body_fn of fori_loop", first, body, len(carried.ids))
    metas = [_COUNT, *carried.metas, *[_COUNT] * rng.used]
    captured = _captured(looped)
    program = program_of(run.session, looped, _slots(looped.parameters, metas), captured)
    attrs = {"body": program, "carries": len(metas) - 1}
    return _finished(run, "fori_loop", bounds, carried, rng, captured, attrs)[0]


def _bound(run: Recorder, value: Any, which: str) -> int:
    x = lift(run, value)
    if x.shape or not is_integer(x._meta.dtype):
        raise DTypeError(f"fori_loop: {which} is one integer, not {x._meta}, at {user_line()}")
    return run.fit(tensor_id(x), (), "int64")


def scan(
    run: Recorder, f: Callable[[Any, Any], Any], init: Any, xs: Any, length: int | None, reverse: bool
) -> tuple[Any, Any]:
    """Record a loop over slices of arrays along their first axis."""
    carried = _CarriedTree(run, "scan", init)
    scanned = tree_of(xs, "xs")
    arrays = [lift(run, leaf) for leaf in scanned.leaves]
    count = extent_of([x.shape for x in arrays], length, scanned.paths)
    parts = [(path, Meta(x.shape[1:], x._meta.dtype)) for path, x in zip(scanned.paths, arrays, strict=True)]
    made: list[Tree] = []
    n = len(carried.ids)

    def body(ids: list[int]) -> list[int]:
        part = scanned.filled([fresh(run, i) for i in ids[n:]])
        carry, y = pair_of(f(carried.rebuilt(ids[:n]), part))
        made.append(tree_of(y, "y"))
        out = [tensor_id(strong(lift(run, leaf))) for leaf in made[0].leaves]
        return [*carried.returned("f", carry), *out]

    looped, rng = _loop_body(run, "f of scan", [*carried.parameters, *parts], body, n)
    *inner, index = looped.parameters
    ordered = [*inner[:n], *[index] * rng.used, *inner[n:]]
    metas = [*carried.metas, *[_COUNT] * rng.used, *(m for _, m in parts)]
    captured = _captured(looped)
    program = program_of(run.session, looped, _slots(ordered, metas), captured)
    attrs = {
        "body": program, "carries": n + rng.used, "scanned": len(arrays), "length": count, "reverse": bool(reverse),
    }
    others = [*(tensor_id(x) for x in arrays), *captured]
    carry, stacked = _finished(run, "scan", [], carried, rng, others, attrs)
    return carry, made[0].filled([fresh(run, i) for i in stacked])


def extent_of(shapes: Sequence[tuple[int, ...]], length: Any, paths: Sequence[str]) -> int:
    """Return the number of iterations of a scan; raises ShapeError, with both sides, where arrays disagree."""
    for shape, path in zip(shapes, paths, strict=True):
        if not shape:
            raise ShapeError(f"scan at {user_line()}: {path} has rank 0, and no parts to go over")
    extents = {f"{path} has {s[0]}": s[0] for path, s in zip(paths, shapes, strict=True)}
    if length is not None:
        extents["length is " + str(int(length))] = int(length)
    if len(set(extents.values())) > 1:
        first = next(iter(extents))
        other = next(text for text, n in extents.items() if n != extents[first])
        raise ShapeError(f"scan at {user_line()}: {first} parts along the first axis, and {other}")
    if not extents or min(extents.values()) < 0:
        raise ArgumentError(f"scan at {user_line()} needs arrays to go over, or a length from 0 on")
    return next(iter(extents.values()))


def pair_of(value: Any) -> tuple[Any, Any]:
    """Return what the function of a scan returns; raises ArgumentError where it is not a pair."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ArgumentError(f"scan at {user_line()}: f has to return a pair (carry, y), and has returned "
                            f"{_described(value)}. Return (carry, None) where there is nothing to collect.")
    return value[0], value[1]


def _described(value: Any) -> str:
    """Describe a function's result in the user's words."""
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"one array, {str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
    plain = value is None or isinstance(value, int | float | complex | str)
    return repr(value) if plain else f"a {type(value).__name__}"


# ---------------------------------------------------------------- branches
def cond(
    run: Recorder, pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: tuple[Any, ...]
) -> Any:
    """Record a choice between two functions; a condition that is known while tracing records no step."""
    if type(pred) in (bool, np.bool_):
        return (true_fn if pred else false_fn)(*_copies(operands))
    choice = _choice(run, pred, "cond")
    start, before = run.random_index(), (run.random_calls, run.random_base)
    trees: list[Tree] = []
    indices: list[int | None] = []
    sides = "what true_fn returns", "what false_fn returns"

    def branch(function: Callable[..., Any]) -> Callable[[list[int]], list[int]]:
        def traced(_: list[int]) -> list[int]:
            tree = tree_of(function(*_copies(operands)), "result")
            if trees:
                check_structure("cond", trees[0], tree, sides)
            trees.append(tree)
            out = [tensor_id(strong(lift(run, leaf))) for leaf in tree.leaves]
            indices.append(run.random_index() if (run.random_calls, run.random_base) != before else None)
            return out

        return traced

    bodies = [
        trace_body(run, f"{name} of cond", [], branch(function))
        for name, function in (("true_fn", true_fn), ("false_fn", false_fn))
    ]
    for a, b, path in zip(bodies[0].outputs, bodies[1].outputs, trees[0].paths, strict=True):
        check_type("cond", path, (run.graph.metas[a], run.graph.metas[b]), sides)
    rng_counts = any(k is not None for k in indices)
    if rng_counts:
        bodies = [
            body_of(run.session, b.region, (*b.outputs, start if k is None else k))
            for b, k in zip(bodies, indices, strict=True)
        ]
    if not bodies[0].outputs:
        return trees[0].filled([])
    captured = _captured(*bodies)
    slot = [(None, run.graph.metas[choice])]
    programs = [program_of(run.session, body, slot, captured) for body in bodies]
    results = run.emit_all("cond", (choice, *captured), {"on_true": programs[0], "on_false": programs[1]})
    if rng_counts:
        run.random_calls, run.random_base = 0, results[-1]
        results = results[:-1]
    return trees[0].filled([fresh(run, i) for i in results])


def _choice(run: Recorder, value: Any, what: str) -> int:
    """Return the truth of one value as a bool tensor."""
    x = lift(run, value)
    if x.shape:
        raise ShapeError(f"{what} decides by one value, not by {x._meta}, at {user_line()}: use np.any or np.all")
    return run.fit(tensor_id(x), (), "bool")


def _copies(operands: tuple[Any, ...]) -> list[Any]:
    """Return copies of the operands for the body: its writes into them do not show outside."""
    trees = [tree_of(value, "operand") for value in operands]
    return [tree.filled([copied(leaf) for leaf in tree.leaves]) for tree in trees]


def copied(leaf: Any) -> Any:
    """Return a copy of an operand's leaf, whose writes do not show outside."""
    if type(leaf) is TracedTensor:
        return leaf.as_copy(scalar=leaf._scalar)
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf
