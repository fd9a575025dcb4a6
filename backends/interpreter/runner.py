"""ProgramRunner: replay a FusedProgram step by step over any eager tensor class.

The oracle of the tests and the fallback of every backend. Owns: binding and checking feeds, resolving each
step's method by name on the class, the liveness of values in a mode, and the results for the caller. The class
of the feeds decides where it runs: torch first, then other tensors, then NumPy. Feeds are never written:
new state and written arguments are returned, and the caller stores them.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitfuse.backends.interpreter import diagnostics
from jitfuse.backends.interpreter.eager import EagerTensor
from jitfuse.backends.interpreter.numpy_tensor import NumPyTensor
from jitfuse.base.records import NamedTuple
from jitfuse.errors import ArgumentError, BoundInput, CutWireError, JitfuseError
from jitfuse.ir.analysis.attributes import check_attrs
from jitfuse.ir.analysis.liveness import inputs_in_mode, live_steps
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, Meta, OpStep
from jitfuse.tracing.abstract import normalize_attrs

Store = dict[int, Any]


@dataclass(frozen=True, eq=False)
class RunResult:
    """The results of a run, as arrays of the feeds' kind; a weak value is a Python scalar.

    outputs  path in the returned tree -> value; a returned feed is the very object that was bound
    state    state feed -> its new value: all states in training, only the random state in evaluation
    writes   argument feed -> the content of its array after the call

    Except for returned feeds, none of these shares memory with another one or with a feed.
    """

    outputs: dict[str, Any]
    state: dict[int, Any]
    writes: dict[int, Any]


class _Planned(NamedTuple):
    """A live step, ready to run: its op table row, complete attributes, operands, and the values to drop after it."""

    step: OpStep
    op: ops.Op
    attrs: dict[str, Any]
    inputs: tuple[int, ...]
    drop: tuple[int, ...]


class ProgramRunner:
    """Interprets one program; between calls it caches only the live steps of each class and mode."""

    def __init__(self, program: FusedProgram) -> None:
        self.program = program
        self._plans: dict[tuple[type, bool], list[_Planned]] = {}

    def __call__(
        self, feeds: Mapping[int, Any], training: bool = False, after: Callable[[OpStep, Store], None] | None = None
    ) -> RunResult:
        """Run the program on {feed: array, tensor or Python scalar}; raises CutWireError where it fails.

        `after` is called with each step that has run, and the tensors that there are by then.
        """
        check_complete(self.program, feeds)
        cls = tensor_class(feeds.values())
        store: Store = {i: self._bind(i, feeds[i], cls) for i in self.program.ordered_feeds}
        bound = dict(store)
        plan = self._plan(cls, training, store)
        with np.errstate(all="ignore"):
            for planned in plan:
                self._run_step(planned, store, cls)
                if after is not None:
                    after(planned.step, store)
                for i in planned.drop:
                    del store[i]
        return self._deliver(store, feeds, bound, training)

    # ------------------------------------------------------------------ feeds
    def _bind(self, feed: int, value: Any, cls: type[EagerTensor]) -> EagerTensor:
        meta = self.program.meta.get(feed)
        name = diagnostics.feed_text(self.program, feed)
        expected = None if meta is None else diagnostics.describe(meta)
        try:
            tensor = cls.bind(value, meta)
        except JitfuseError as error:
            raise diagnostics.at_boundary(
                self.program, f"the feed {name} cannot be bound: {error}", [BoundInput(feed, True)],
                expected=expected, actual=type(value).__name__, kind=diagnostics.of_cause(error),
            ) from error
        actual = tensor.meta
        clash = diagnostics.clash(meta, actual)
        if clash:
            raise diagnostics.at_boundary(
                self.program, f"the feed {name} has the wrong {clash.what}", [BoundInput(feed, True, actual)],
                expected=expected, actual=diagnostics.describe(actual), kind=clash.kind,
            )
        return tensor

    # ------------------------------------------------------------------ the plan of a mode
    def _plan(self, cls: type[EagerTensor], training: bool, store: Store) -> list[_Planned]:
        if (cls, training) in self._plans:
            return self._plans[cls, training]
        kept = {*self.program.delivered(training), *self.program.feeds}
        dropped: set[int] = set()
        planned: list[_Planned] = []
        for step in reversed(live_steps(self.program, training)):
            inputs = inputs_in_mode(step, training)
            last_use = {*inputs, *step.result_ids} - kept - dropped
            dropped |= last_use
            op, attrs = self._resolve(step, cls, training, store)
            planned.append(_Planned(step, op, attrs, inputs, tuple(last_use)))
        self._plans[cls, training] = planned[::-1]
        return self._plans[cls, training]

    def _resolve(
        self, step: OpStep, cls: type[EagerTensor], training: bool, store: Store
    ) -> tuple[ops.Op, dict[str, Any]]:
        op = ops.get(step.op_name)
        if op is None or (op.kind != ops.CREATION and not callable(getattr(cls, step.op_name, None))):
            raise diagnostics.unknown_operator(self.program, step, cls, _metas(store))
        try:
            attrs = normalize_attrs(op, step.attr_dict)
            check_attrs(op, attrs)
            if op.arity not in (ops.VARIADIC, len(step.input_ids)):
                raise ArgumentError(f"{op.name} takes {op.arity} operand(s), not {len(step.input_ids)}")
        except JitfuseError as error:
            raise self._cut(step, store, str(error), kind=diagnostics.of_cause(error)) from error
        attrs = {n: NestedProgram(v, training) if isinstance(v, FusedProgram) else v for n, v in attrs.items()}
        return op, {**attrs, "training": training} if op.mode_sensitive else attrs

    # ------------------------------------------------------------------ steps
    def _run_step(self, planned: _Planned, store: Store, cls: type[EagerTensor]) -> None:
        step, op, attrs, inputs, _ = planned
        unbound = [i for i in inputs if i not in store]
        if unbound:
            raise self._cut(step, store, f"%{unbound[0]} is read, but nothing before this step makes it")
        operands = [store[i] for i in inputs]
        try:
            if op.kind == ops.CREATION:
                result = _beside(store, cls).create(op.name, **attrs)
            else:
                result = getattr(operands[0], op.name)(*operands[1:], **attrs)
        except Exception as error:
            raise self._failed(step, op, store, operands, error) from error
        results = result if isinstance(result, tuple) else (result,)
        if len(results) != len(step.result_ids):
            raise self._cut(
                step, store, f"{op.name} made {len(results)} value(s), the step names {len(step.result_ids)}"
            )
        for i, tensor in zip(step.result_ids, results, strict=True):
            self._check_result(step, i, tensor.meta, store)
            store[i] = tensor

    def _check_result(self, step: OpStep, i: int, actual: Meta, store: Store) -> None:
        meta = self.program.meta.get(i)
        clash = diagnostics.clash(meta, actual)
        if meta is not None and clash:
            raise self._cut(
                step, store, f"{step.op_name} made %{i} with the wrong {clash.what}", kind=clash.kind,
                expected=diagnostics.describe(meta), actual=diagnostics.describe(actual),
            )

    def _failed(
        self, step: OpStep, op: ops.Op, store: Store, operands: list[EagerTensor], error: Exception
    ) -> CutWireError:
        """Return the error of a method that raised: operands that do not fit, or a failure at run time."""
        meta = self.program.meta.get(step.result_id)
        typed = isinstance(error, JitfuseError)
        reason = str(error) if typed else f"{op.name} failed: {type(error).__name__}: {error}"
        return self._cut(
            step, store, reason, kind=diagnostics.of_cause(error),
            expected=None if meta is None else diagnostics.describe(meta),
            actual=f"{type(error).__name__} from {', '.join(str(t.meta) for t in operands) or 'no operands'}",
        )

    def _cut(self, step: OpStep, store: Store, reason: str, **fields: Any) -> CutWireError:
        return diagnostics.at_step(self.program, step, reason, known=_metas(store), **fields)

    # ------------------------------------------------------------------ results
    def _deliver(self, store: Store, feeds: Mapping[int, Any], bound: Store, training: bool) -> RunResult:
        program = self.program
        taken = {t.storage() for t in bound.values()}

        def fresh(i: int) -> Any:
            if i not in store:
                raise diagnostics.at_boundary(
                    program, f"%{i} is to be delivered, but neither a feed nor a step makes it",
                    [BoundInput(i, False, program.meta.get(i))],
                )
            return store[i].fresh(taken)

        ids = dict.fromkeys(program.outputs.values())
        outputs = {i: feeds[i] if i in bound else self._in_order(i, fresh(i)) for i in ids}
        moved = {f: n for f, n in program.state_out.items() if training or program.is_random_state(f)}
        return RunResult(
            outputs={path: outputs[i] for path, i in program.outputs.items()},
            state={feed: fresh(new) for feed, new in moved.items()},
            writes={feed: fresh(new) for feed, new in program.writes.items()},
        )

    def _in_order(self, value: int, made: Any) -> Any:
        """Return a NumPy result in the layout of kernels: in C order, or a transposed view of an array in C order."""
        if not isinstance(made, np.ndarray) or made.ndim < 2:
            return made
        axes = memory_order(self.program, value, made.ndim)
        back = tuple(axes.index(k) for k in range(made.ndim))
        return np.ascontiguousarray(made.transpose(axes)).transpose(back)


class NestedProgram:
    """A callable for a program among a step's attributes, called with the step's operands.

    Binds them to the feeds in ascending order, and returns the outputs in their order: arrays for arrays,
    tensors for tensors.
    """

    def __init__(self, program: FusedProgram, training: bool) -> None:
        self.program = program
        self._runner = ProgramRunner(program)
        self._training = training

    @property
    def results(self) -> list[tuple[tuple[int, ...], str]]:
        """Shape and dtype of each result."""
        metas = (self.program.meta[i] for i in self.program.outputs.values())
        return [(m.shape, m.dtype) for m in metas]

    def __call__(self, *operands: Any) -> tuple[Any, ...]:
        """Return the program's outputs; raises ArgumentError where the operands are too many or too few."""
        feeds = self.program.ordered_feeds
        if len(operands) != len(feeds):
            raise ArgumentError(f"the nested program has {len(feeds)} feed(s), not {len(operands)}")
        result = self._runner(dict(zip(feeds, operands, strict=True)), self._training)
        tensors = [type(o) for o in operands if isinstance(o, EagerTensor)]
        if not tensors:
            return tuple(result.outputs.values())
        return tuple(v if isinstance(v, EagerTensor) else tensors[0](v) for v in result.outputs.values())


def memory_order(program: FusedProgram, value: int, ndim: int) -> tuple[int, ...]:
    """Return the axes of a result from the slowest to the fastest in memory: transposes at its end move none."""
    axes = tuple(range(ndim))
    step = program.producers.get(value)
    while step is not None and step.op_name == "transpose":
        axes = tuple(step.attr("axes")[a] % ndim for a in axes)
        step = program.producers.get(step.input_ids[0])
    return tuple(axes.index(k) for k in range(ndim))


def check_complete(program: FusedProgram, feeds: Mapping[int, Any]) -> None:
    """Raise CutWireError unless values are given for all feeds of a program, and for nothing else."""
    missing = [i for i in program.ordered_feeds if i not in feeds]
    surplus = [i for i in feeds if i not in program.feeds]
    reasons: list[str] = []
    if missing:
        names = ", ".join(diagnostics.feed_text(program, i) for i in missing)
        reasons.append(f"nothing is bound to the feed {names}")
    if surplus:
        reasons.append(f"{', '.join(f'%{i}' for i in surplus)} is bound, but is no feed of the program")
        reasons += [f"a step makes %{i}" for i in surplus if i in program.producers][:1]
    if reasons:
        inputs = [BoundInput(i, i in feeds, program.meta.get(i)) for i in (*missing, *surplus)]
        kind = diagnostics.CutWireArgumentError
        raise diagnostics.at_boundary(program, "; ".join(reasons), inputs, kind=kind)


def _metas(store: Store) -> dict[int, Meta]:
    return {i: tensor.meta for i, tensor in store.items()}


def _beside(store: Store, cls: type[EagerTensor]) -> EagerTensor:
    """Return the tensor whose device a creation step uses: a strong one where there is one."""
    for tensor in store.values():
        if not tensor.weak:
            return tensor  # type: ignore[no-any-return]
    return cls(0)


def tensor_class(values: Iterable[Any]) -> type[EagerTensor]:
    """Return the tensor class that values of these kinds run on."""
    torch = sys.modules.get("torch")
    found: type[EagerTensor] = NumPyTensor
    for value in values:
        if isinstance(value, EagerTensor) and type(value) is not NumPyTensor:
            found = type(value)
        if torch is not None and isinstance(getattr(value, "value", value), torch.Tensor):
            from jitfuse.backends.interpreter.torch_tensor import TorchProgramTensor  # loads torch

            return TorchProgramTensor
    return found
