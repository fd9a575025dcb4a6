"""Decide which values lie in memory, and which are views of others.

Owns what must be stored (outputs, writes, state, operands of library calls, dear values read under several index maps),
what is in memory from the start (feeds, literal arrays), and which outputs and library operands are strided views of a
buffer rather than buffers of their own.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import itemsize
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, OpStep
from jitfuse.plans.contraction import contractible
from jitfuse.plans.frame import contiguous_layout
from jitfuse.plans.inlining import Inlining
from jitfuse.plans.layout import Layout, contiguous, strided
from jitfuse.plans.policy import DEFAULT, LoweringPolicy
from jitfuse.plans.updates import donated_updates
from jitfuse.plans.windows import Windows

_RANDOM: Final = frozenset({"random_uniform", "random_advance"})
_ALIASED: Final = ("reshape", "transpose")
_HOST_VIEWS: Final = ("transpose", "slice", "broadcast_to", "reshape", "diagonal", "windows")


class BufferView(NamedTuple):
    """A strided window into the buffer of another value."""

    base: int
    offset: int
    layout: Layout


class Commit(NamedTuple):
    """At the end of a call: write a value over a region of a feed's memory."""

    value: int
    feed: int
    offset: int
    layout: Layout


class Values:
    """The storage of one primitive program's values. `layouts` gives the layout of each array feed.

    `donated` maps feeds that are not needed after the call to the number of the output that may take their memory.
    """

    def __init__(
        self, program: FusedProgram, layouts: Mapping[int, Layout], policy: LoweringPolicy = DEFAULT,
        in_place: bool = True, donated: Mapping[int, int] | None = None,
    ) -> None:
        self.program = program
        self.policy = policy
        self.choices: set[str] = set()
        """The choices of a policy that make a difference here."""
        contractions = contractible(program)
        self.own = contractions if policy.own else frozenset()
        """The results of contractions that own kernels compute; libraries compute the others."""
        if contractions:
            self.choices.add("own")
        self.memory: dict[int, tuple[Any, Layout]] = {}
        for feed in program.feeds:
            layout = layouts.get(feed) or contiguous_layout(program.meta[feed])
            self.memory[feed] = (("feed", feed), layout)
        for step in program.steps:
            if step.op_name == "constant":
                value = step.result_id
                self.memory[value] = (("const", value), contiguous_layout(program.meta[value]))
        self.views: dict[int, BufferView] = {}
        self.must: set[int] = set()
        self.commits: list[Commit] = []
        self.reserved: list[int] = []
        self._reserve_random_state()
        self._share_memory(in_place, donated or {})
        self._find_commits()
        self._find_outputs()
        self._find_host_operands()
        self._store_copies()
        self._store_keys()
        self.inlining = Inlining(program, policy, self.memory, self.must, self.choices)

    def base(self, value: int) -> int:
        """Return the value whose buffer holds this one."""
        view = self.views.get(value)
        return view.base if view is not None else value

    def buffer(self, value: int) -> Any:
        """Return the buffer that holds a value."""
        base = self.base(value)
        return self.memory[base][0] if base in self.memory else ("value", base)

    def layout(self, value: int) -> tuple[int, int, Layout]:
        """Return (value that owns the buffer, byte offset, layout) of a stored value or view."""
        view = self.views.get(value)
        if view is not None:
            return view.base, view.offset, view.layout
        if value in self.memory:
            return value, 0, self.memory[value][1]
        return value, 0, contiguous_layout(self.program.meta[value])

    def hidden_inputs(self, value: int) -> tuple[int, ...]:
        """Return the values that a value's own node reads beside its operands: the random state and call index."""
        step = self.program.producers[value]
        if step.op_name in _RANDOM:
            return tuple(i for i in step.input_ids if i in self.program.feeds)
        return ()

    def is_swept_again(self, value: int) -> bool:
        """Return whether a reduction's result is needed for a value of its operand's shape, as in a softmax."""
        shape = self.program.meta[self.program.producers[value].input_ids[0]].shape
        seen, stack = {value}, [value]
        while stack:
            for step in self.program.consumers.get(stack.pop(), ()):
                op = ops.get(step.op_name)
                assert op is not None
                if op.kind in (ops.REDUCTION, *ops.ON_HOST) or step.result_id in seen:
                    continue
                if op.kind in (ops.ELEMENTWISE, ops.SCAN) and self.program.meta[step.result_id].shape == shape:
                    return True
                seen.add(step.result_id)
                stack.append(step.result_id)
        return False

    def version(self, value: int) -> int:
        """Return the value that must have been stored before a library reads this one from memory."""
        return self._versions.get(value, value if value in self.windows else self.base(value))

    # ------------------------------------------------------------------ what must be stored
    def _share_memory(self, in_place: bool, donated: Mapping[int, int]) -> None:
        """Find the updates that are stored in place, as views of the array that they change."""
        self.windows: dict[int, BufferView] = {}
        self._versions: dict[int, int] = {}
        if not in_place:
            return
        found = self._windows(donated)
        for value, head in found.heads.items():
            if value == head:
                continue
            whole = contiguous_layout(self.program.meta[value])
            self.windows[value] = _window(self.program, self.program.producers[value], head, whole)
            self.views[value] = BufferView(head, 0, whole)

    def _windows(self, donated: Mapping[int, int]) -> Windows:
        """Return the updates stored in place. A donated feed is written only if its output takes its memory."""
        while True:
            must = set(self.must)
            found = Windows(self.program, self.memory, must, donated)
            lost = {f for f, last in donated_updates(self.program, donated).items() if found.heads.get(last) != f}
            if not lost:
                self.must |= must
                return found
            donated = {feed: k for feed, k in donated.items() if feed not in lost}

    def _reserve_random_state(self) -> None:
        """Make the call take its random numbers at its start: copy the state, then advance it.

        Other threads and functions can then run in between without drawing the same numbers.
        """
        for feed in self.program.state_out:
            if self.program.is_random_state(feed):
                self.reserved.append(feed)
                self.memory[feed] = (("reserved", feed), contiguous_layout(self.program.meta[feed]))

    def _find_commits(self) -> None:
        """List the writes into feeds: only the regions that change, if the value is a chain of updates."""
        program = self.program
        targets = {**program.state_out, **program.writes}
        for feed, new in targets.items():
            if feed in self.reserved:
                continue
            layout = self.memory[feed][1]
            chain = self._update_chain(feed, new, set(targets))
            if chain is None:
                self.must.add(new)
                self.commits.append(Commit(new, feed, 0, layout))
                continue
            for step in chain:
                value = step.input_ids[1]
                moved = _through(step, tuple(step.attr("counts")), layout, itemsize(program.meta[feed].dtype), "slice")
                assert moved is not None
                if value not in self.memory and not self._is_literal(value):
                    self.must.add(value)
                self.commits.append(Commit(value, feed, moved[1], moved[0]))

    def _update_chain(self, feed: int, new: int, written: set[int]) -> list[OpStep] | None:
        chain: list[OpStep] = []
        while new != feed:
            step = self.program.producers.get(new)
            if step is None or step.op_name != "update_slice" or step.input_ids[1] in written:
                return None
            if new in self.windows:
                return None
            chain.append(step)
            new = step.input_ids[0]
        return chain[::-1]

    def _is_literal(self, value: int) -> bool:
        step = self.program.producers.get(value)
        return step is not None and step.op_name in ("full", "zeros", "extent")

    def _find_outputs(self) -> None:
        taken: set[int] = set()
        delivered = list(dict.fromkeys(self.program.outputs.values()))
        # a scalar is read out of its memory, not wrapped: it needs memory of its own
        plain = {v for v in delivered if not self._is_alias(v) or not self.program.meta[v].shape}
        self.must |= {v for v in plain if v not in self.memory}
        for value in delivered:
            if value in plain or value in self.memory:
                continue
            base = self._alias_base(value)
            view = self._view(value, _ALIASED)
            if base in self.memory or base in self.must or base in taken or view is None:
                self.must.add(value)
                continue
            taken.add(base)
            self.must.add(base)
            self.views[value] = view

    def _is_alias(self, value: int) -> bool:
        step = self.program.producers.get(value)
        return step is not None and step.op_name in _ALIASED

    def _alias_base(self, value: int) -> int:
        while self._is_alias(value):
            value = self.program.producers[value].input_ids[0]
        return value

    def _find_host_operands(self) -> None:
        for step in self.program.steps:
            op = ops.get(step.op_name)
            assert op is not None
            if op.kind in ops.ON_HOST:
                for i in step.input_ids:
                    if step.result_id not in self.own or self._follows_contraction(i):
                        self._host_operand(i)

    def _follows_contraction(self, value: int) -> bool:
        """Return whether an operand is computed from a contraction, whose kernel then stores it as it is read."""
        seen, stack = {value}, [value]
        while stack:
            step = self.program.producers.get(stack.pop())
            if step is None or step.result_id in self.memory or step.result_id in self.must:
                continue
            op = ops.get(step.op_name)
            assert op is not None
            if op.kind == ops.CONTRACTION:
                return True
            fresh = [i for i in step.input_ids if i not in seen]
            seen.update(fresh)
            stack += fresh
        return False

    def _host_operand(self, value: int) -> None:
        if value in self.memory or value in self.must:
            return
        view = self._view(value, _HOST_VIEWS)
        if view is not None and view.base != value:
            self._versions[value] = view.base
            self.views[value] = view._replace(base=self.base(view.base))
            value = view.base
        if value not in self.memory:
            self.must.add(value)

    def _store_copies(self) -> None:
        """Store copies, and windows that are read under another shape, whose indices would need divisions."""
        for step in self.program.steps:
            readers = self.program.consumers.get(step.result_id, ())
            reshaped = step.op_name == "windows" and any(r.op_name == "reshape" for r in readers)
            if reshaped or step.op_name == "copy":
                self.must.add(step.result_id)

    def _store_keys(self) -> None:
        """Store the random states that are computed, such as keys split from another: all elements read them."""
        for step in self.program.steps:
            if step.op_name == "random_uniform" and step.input_ids[0] not in self.memory:
                self.must.add(step.input_ids[0])

    # ------------------------------------------------------------------ views
    def _view(self, value: int, allowed: tuple[str, ...]) -> BufferView | None:
        chain: list[OpStep] = []
        base = value
        while base not in self.memory and base not in self.must:
            step = self.program.producers[base]
            if step.op_name not in allowed:
                break
            chain.append(step)
            base = step.input_ids[0]
        layout = self.memory[base][1] if base in self.memory else contiguous_layout(self.program.meta[base])
        size, offset = itemsize(self.program.meta[base].dtype), 0
        for step in reversed(chain):
            moved = _through(step, self.program.meta[step.result_id].shape, layout, size)
            if moved is None:
                return None
            layout, offset = moved[0], offset + moved[1]
        return BufferView(base, offset, layout)


def _window(program: FusedProgram, step: OpStep, head: int, whole: Layout) -> BufferView:
    """Return where an update stores in an array's memory: a region, one block, or for a loop the whole array."""
    if step.op_name == "update_at":
        return BufferView(head, 0, contiguous_layout(program.meta[step.input_ids[1]]))
    if step.op_name != "update_slice":
        return BufferView(head, 0, whole)
    moved = _through(step, tuple(step.attr("counts")), whole, itemsize(program.meta[head].dtype), "slice")
    assert moved is not None
    return BufferView(head, moved[1], moved[0])


def _through(
    step: OpStep, shape: tuple[int, ...], layout: Layout, size: int, kind: str | None = None
) -> tuple[Layout, int] | None:
    """Return (layout, byte offset) of a view step over a layout; None if it would have to copy."""
    kind = kind or step.op_name
    if kind == "reshape":
        return (contiguous(shape, size), 0) if layout.contiguous else None
    if kind == "transpose":
        axes = step.attr("axes")
        return strided(shape, tuple(layout.strides[a] for a in axes), size), 0
    if kind == "slice":
        starts, steps = step.attr("starts"), step.attr("steps")
        offset = sum(a * s for a, s in zip(starts, layout.strides, strict=True)) if 0 not in shape else 0
        return strided(shape, tuple(a * s for a, s in zip(steps, layout.strides, strict=True)), size), offset
    if kind == "diagonal":
        offset, (*outer, row, column) = step.attr("offset"), layout.strides
        start = (max(-offset, 0) * row + max(offset, 0) * column) if 0 not in shape else 0
        return strided(shape, (*outer, row + column), size), start
    if kind == "windows":
        lead = len(layout.shape) - len(step.attr("sizes"))
        moved = (tuple(a * s for a, s in zip(step.attr(by), layout.strides[lead:], strict=True))
                 for by in ("dilations", "steps"))
        return strided(shape, (*layout.strides[:lead], *(s for axes in moved for s in axes)), size), 0
    lead = len(shape) - len(layout.shape)
    strides = (0,) * lead + tuple(
        0 if n == 1 and m != 1 else s for n, m, s in zip(layout.shape, shape[lead:], layout.strides, strict=True)
    )
    return strided(shape, strides, size), 0
