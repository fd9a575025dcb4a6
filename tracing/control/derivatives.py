"""Derivatives in a trace: a function is recorded as a program, differentiated, and its steps go on in the trace.

Owns how arguments become feeds and how steps of a derivative are spliced in. Does not own the transforms
(`jitfuse.gradients`), nor the functions that users call (`jitfuse.derivatives`).
"""
from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitfuse.base.records import NamedTuple, Record
from jitfuse.errors import ArgumentError, DerivativeError
from jitfuse.gradients.programs import Derivative, forward, reverse
from jitfuse.gradients.values import is_smooth, zeros_like
from jitfuse.ir.operators.ops import HOLD_PROGRAMS
from jitfuse.ir.program import FusedProgram, OpStep
from jitfuse.tracing.control.combinators import copied, strong
from jitfuse.tracing.control.reroll.programs import rerolled
from jitfuse.tracing.record.foreign import Foreign, bare
from jitfuse.tracing.record.memory import Storage
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.record.regions import program_of, trace_body
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.results.trees import Tree, check_structure, check_type, takes_number, tree_of
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor, fresh, tensor_id


class Differentiable(NamedTuple):
    """The leaves of the arguments by which a function is differentiated.

    trees     position of an argument -> its tree
    tensors   the leaves as tensors of the trace, Python's numbers in their default dtypes
    """

    trees: Mapping[int, Tree]
    tensors: list[TracedTensor]

    @property
    def leaves(self) -> list[Any]:
        """The leaves as the user has them."""
        return [leaf for tree in self.trees.values() for leaf in tree.leaves]

    @property
    def paths(self) -> list[str]:
        """Where each leaf is."""
        return [path for tree in self.trees.values() for path in tree.paths]

    def filled(self, values: Sequence[Any]) -> dict[int, Any]:
        """Return the arguments over other leaves."""
        made, rest = {}, list(values)
        for position, tree in self.trees.items():
            made[position] = tree.filled(rest[: len(tree.leaves)])
            rest = rest[len(tree.leaves) :]
        return made


def differentiable(run: Recorder, what: str, args: Sequence[Any], positions: Sequence[int]) -> Differentiable:
    """Return the leaves of arguments; raises DerivativeError for one that holds no floats or complex numbers."""
    trees = {k: tree_of(args[k], f"args[{k}]") for k in positions}
    tensors = []
    for tree in trees.values():
        for path, leaf in zip(tree.paths, tree.leaves, strict=True):
            x = strong(lift(run, bare(leaf)))
            if not is_smooth(x):
                raise DerivativeError(
                    f"{what} at {user_line()}: {path} is {x._meta}, and derivatives are by floats and complex numbers. "
                    f"Pass it as floats, or leave it out of argnums.")
            tensors.append(x)
    return Differentiable(trees, tensors)


class Recorded(Record, frozen=True):
    """A function's program: its feeds are the differentiated leaves, then what it captures.

    operands  the tensors of the trace that its feeds stand for
    value     the tree that the function returns
    aux       the tree that it returns beside it, or None
    written   the storages from outside that it writes into; their new values are outputs too
    draws     whether a last output is the index of the next random number
    """

    run: Recorder
    program: FusedProgram
    operands: tuple[int, ...]
    wanted: tuple[int, ...]
    value: Tree
    aux: Tree | None
    written: list[Storage]
    draws: bool

    @property
    def names(self) -> list[str]:
        """The names of the outputs that are the function's value."""
        return list(self.program.outputs)[: len(self.value.leaves)]

    def changed(self, transform: Callable[..., Derivative]) -> Derivative:
        """Return what a mode makes of the program; the outermost derivative is the last one."""
        made = transform(self.program, self.wanted, self.names)
        return made if self.run.differentiated else made.last()

    def finished(self, changed: FusedProgram, ids: Mapping[int, int]) -> tuple[Any, Any]:
        """Return the function's value and aux over spliced steps; what it wrote and drew counts from there on."""
        run, outputs = self.run, [ids[changed.outputs[name]] for name in self.program.outputs]
        if self.draws:
            run.random_calls, run.random_base = 0, outputs.pop()
        for storage in reversed(self.written):
            run.replace(storage, outputs.pop())
        count = len(self.value.leaves)
        value = self.value.filled(alike(run, self.value.leaves, outputs[:count]))
        aux = None if self.aux is None else self.aux.filled([
            made if _is_tensor(leaf) else leaf
            for leaf, made in zip(self.aux.leaves, alike(run, self.aux.leaves, outputs[count:]), strict=True)])
        return value, aux


def record(
    run: Recorder, what: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any],
    by: Differentiable, has_aux: bool, *, copies: bool = True,
) -> Recorded:
    """Run a function on new tensors for the leaves, and return its program; `copies`: of its other arguments."""
    made: list[Tree] = []
    index: list[int] = []
    written: list[Storage] = []
    before = run.random_calls, run.random_base

    def body(ids: list[int]) -> list[int]:
        given = by.filled(alike(run, by.leaves, ids))
        value = function(*[given[k] if k in given else _copies(arg) if copies else arg for k, arg in enumerate(args)],
                         **kwargs)
        if has_aux and not (isinstance(value, tuple) and len(value) == 2):
            raise ArgumentError(f"{what} at {user_line()}: with has_aux=True the function returns a pair (value, aux), "
                                f"and this one has returned a {type(value).__name__}.")
        made.extend(tree_of(part, "result") for part in (value if has_aux else (value,)))
        leaves = [*made[0].leaves, *(leaf if _is_tensor(leaf) else 0 for leaf in (made[1].leaves if has_aux else ()))]
        out = [tensor_id(strong(lift(run, bare(leaf)))) for leaf in leaves]
        region = run.session.region
        assert region is not None and region.written is not None
        for storage, held in region.written.values():
            written.append(storage)
            out.append(storage.value)
            storage.value, storage.cache = held, {}
        if (run.random_calls, run.random_base) != before:
            index.append(run.random_index())
        return [*out, *index]

    parameters = [(path, x._meta) for path, x in zip(by.paths, by.tensors, strict=True)]
    run.differentiated += 1
    try:
        with _grad_mode(run):
            traced = trace_body(run, f"the function of {what}", parameters, body, runs_once=True)
    finally:
        run.differentiated -= 1
    captured = sorted(traced.captured)
    slots = list(zip(traced.parameters, [run.graph.metas[i] for i in traced.parameters], strict=True))
    program = rerolled(program_of(run.session, traced, slots, captured))
    operands = (*map(tensor_id, by.tensors), *captured)
    return Recorded(run, program, operands, program.ordered_feeds[: len(slots)], made[0],
                    made[1] if has_aux else None, written, bool(index))


def _grad_mode(run: Recorder) -> Any:
    """Return a context in which torch has gradients, if torch is there: `torch.no_grad` in the function ends them."""
    torch: Any = sys.modules.get("torch")
    if not hasattr(torch, "enable_grad"):
        return contextlib.nullcontext()
    run.has_gradients = torch.is_grad_enabled
    return torch.enable_grad()


def _copies(value: Any) -> Any:
    tree = tree_of(value, "operand")
    return tree.filled([copied(leaf) for leaf in tree.leaves])


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, TracedTensor | Foreign)


def alike(run: Recorder, leaves: Sequence[Any], ids: Sequence[int]) -> list[Any]:
    """Return tensors as values of the kinds of some leaves: torch's, NumPy's arrays or numbers."""
    return [_as_kind(run, leaf, i) for leaf, i in zip(leaves, ids, strict=True)]


def _as_kind(run: Recorder, leaf: Any, tensor: int) -> Any:
    if isinstance(leaf, Foreign):
        return type(leaf)(fresh(run, tensor, scalar=False))  # type: ignore[call-arg]
    return fresh(run, tensor, scalar=not isinstance(leaf, TracedTensor) or leaf._scalar or leaf.weak)


# ---------------------------------------------------------------- steps of derivatives in the trace
def spliced(run: Recorder, program: FusedProgram, steps: Sequence[OpStep], ids: dict[int, int]) -> dict[int, int]:
    """Record steps of a program; `ids` maps its values to tensors of the trace, and then has those of the steps too."""
    for step in steps:
        inputs, source = tuple([ids[i] for i in step.input_ids]), program.sources.get(step.step_id)
        if len(step.result_ids) == 1 and step.op_name not in HOLD_PROGRAMS:
            (result,) = step.result_ids
            ids[result] = run.emit(step.op_name, inputs, step.attrs, program.meta[result], source)
        else:
            ids.update(zip(step.result_ids, run.emit_all(step.op_name, inputs, step.attr_dict, source), strict=True))
    return ids


class PullBack:
    """The function that `vjp` returns: cotangents of the value into those of the leaves."""

    def __init__(self, recorded: Recorded, what: str, by: Differentiable) -> None:
        self._what, self._recorded, self._by = what, recorded, by
        self._made = recorded.changed(reverse)
        program = self._made.program
        self._ids = spliced(recorded.run, program, program.steps[: self._made.forward], dict(
            zip(recorded.program.ordered_feeds, recorded.operands, strict=True)))
        self.value, self.aux = recorded.finished(program, self._ids)

    def gradients(self, cotangents: Sequence[int]) -> list[Any]:
        """Return the cotangents of the leaves, given tensors for those of the smooth leaves of the value."""
        program, run = self._made.program, self._recorded.run
        ids = spliced(run, program, program.steps[self._made.forward :], {
            **self._ids, **dict(zip(self._made.changes, cotangents, strict=True))})
        found = [ids[program.outputs[f"d{k}"]] for k in range(len(self._by.leaves))]
        return alike(run, self._by.leaves, found)

    def __call__(self, cotangent: Any) -> tuple[Any, ...]:
        """Return a cotangent for each argument, given that of the value: a tree like it."""
        run, value = self._recorded.run, self._recorded.value
        given = changes_like(run, self._what, value, cotangent, ("the value", "the cotangent"))
        return self.argument_changes(self.gradients(given))

    def argument_changes(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """Return changes of leaves as one tree for each argument."""
        return tuple(self._by.filled(leaves).values())


def changes_like(run: Recorder, what: str, tree: Tree, changes: Any, sides: tuple[str, str]) -> list[int]:
    """Return the tensors of a tree of changes of another's leaves, for the smooth ones; raises where both differ."""
    given, made = tree_of(changes, "tree"), []
    check_structure(what, tree, given, sides)
    for path, leaf, change in zip(tree.paths, tree.leaves, given.leaves, strict=True):
        x, t = strong(lift(run, bare(leaf))), lift(run, bare(change))
        if not is_smooth(x):
            continue
        if t.weak and not x.shape and takes_number(x._meta.dtype, t._meta.dtype):
            made.append(run.fit(tensor_id(t), (), x._meta.dtype))
            continue
        t = strong(t)
        check_type(what, path, (x._meta, t._meta), sides)
        made.append(tensor_id(t))
    return made


def push(recorded: Recorded, tangents: Sequence[int]) -> tuple[Any, Any, Any]:
    """Return the value, its tangents as a tree like it, and aux, given tensors for tangents of the leaves."""
    made = recorded.changed(forward)
    ids = spliced(recorded.run, made.program, made.program.steps, {
        **dict(zip(recorded.program.ordered_feeds, recorded.operands, strict=True)),
        **dict(zip(made.changes, tangents, strict=True))})
    value, aux = recorded.finished(made.program, ids)
    found = iter([ids[i] for name, i in made.program.outputs.items() if name.startswith("d")])
    leaves = []
    for leaf, name in zip(recorded.value.leaves, recorded.names, strict=True):
        like = fresh(recorded.run, ids[made.program.outputs[name]])
        moved = next(found) if is_smooth(like) else tensor_id(zeros_like(like))
        leaves.append(_as_kind(recorded.run, leaf, moved))
    return value, recorded.value.filled(leaves), aux
