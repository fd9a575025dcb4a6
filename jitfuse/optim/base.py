"""What all optimisers share: parameter groups, gradients of a loss, and state that moves in training alone.

Owns `Optimizer`. A subclass names its options, the arrays that it keeps for each parameter, and its step as array code.
Does not own options (`jitfuse.optim.options`).
"""
from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jitfuse.arrays import state_trees
from jitfuse.arrays.state import Buffer, Parameter
from jitfuse.arrays.state_trees import Keeper, by_path, dotted
from jitfuse.dtypes import kind
from jitfuse.errors import ArgumentError, DerivativeError, NeedsTraceError
from jitfuse.gradients.findings import raise_or_note
from jitfuse.optim import clipping
from jitfuse.optim.elements import complex_view, like, real_view
from jitfuse.optim.options import (
    LIMITS,
    Group,
    Layout,
    by_parameter,
    check_limit,
    check_option,
    check_parameters,
    groups_of,
    made_by_step,
)
from jitfuse.tracing.control.minimised import gradients_of
from jitfuse.tracing.control.state import Held, moves, updating
from jitfuse.tracing.record.recorder import Recorder, active
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.results.trees import tree_of

Slots = dict[str, Any]
_np: Any = np  # its type hints omit traced and eager arrays


class Optimizer(Keeper):
    """Moves parameters against the gradient of a loss; subclasses say how, yours as those of `jf.optim` do.

    A subclass gives `step`, and `start` if it keeps arrays for each parameter; `check` if it refuses some options. It
    hands its options to `__init__`, with their values.

    Args:
        params: a tree with `jf.Parameter` leaves (others are left out), or a list of groups: dicts of such a tree as
            "params", and options of their own.
        options: the options of groups. Numbers are read anew in each call, and compile nothing again.
        clip_value: gradients are clipped to [-clip_value, clip_value].
        clip_norm: gradients are scaled so that the norm of all elements together is at most this.
        loss_scale: the loss is multiplied by this before it is differentiated, and gradients divided by it: small ones
            of float16 keep their bits. A step with infinite or NaN gradients moves nothing.
        accumulate: gradients of so many calls are averaged before the parameters move.
        unused: the names of parameters that the loss need not depend on.

    Raises:
        ArgumentError: no parameters, one of them twice, an option that makes no sense.

    Example:
        >>> class Signs(jf.optim.Optimizer):
        ...     def __init__(self, params, lr=0.1, *, beta=0.9, **common):
        ...         super().__init__(params, {"lr": lr, "beta": beta}, **common)
        ...     def start(self, p, group):
        ...         return {"mean": np.zeros_like(p)}
        ...     def step(self, p, g, slots, by):
        ...         mean = by.beta * slots["mean"] + (1.0 - by.beta) * g
        ...         return p - by.lr * np.sign(mean), {"mean": mean}
        >>> params = jf.nn.parameters({"w": np.ones(2)})
        >>> opt = Signs(params, lr=0.5)
        >>> step = jf.fuse(lambda x: opt.minimize(np.sum((params["w"] - x) ** 2)), training=True)
        >>> step(np.zeros(2))
        >>> params["w"].tolist(), opt.slots[0]["mean"].round(6).tolist()
        ([0.5, 0.5], [0.2, 0.2])
    """

    def __init__(
        self, params: Any, options: Mapping[str, Any], *, clip_value: float | None = None,
        clip_norm: float | None = None, loss_scale: float | None = None, accumulate: int = 1,
        unused: Sequence[str] = (),
    ) -> None:
        self.name = type(self).__name__
        for name, value in {"clip_value": clip_value, "clip_norm": clip_norm, "loss_scale": loss_scale}.items():
            check_limit(self.name, name, value)
        if isinstance(unused, str):
            raise ArgumentError(f"{self.name}: unused is a list of names, such as [{unused!r}]")
        self.clip_value, self.clip_norm, self.loss_scale = clip_value, clip_norm, loss_scale
        if type(accumulate) is not int or accumulate < 1:
            raise ArgumentError(f"{self.name}: accumulate is {accumulate!r}, and must be an integer from 1 on")
        self.unused, self._accumulate, self._options = frozenset(unused), accumulate, tuple(options)
        self.groups = tuple(self._group(tree, {**options, **own}) for tree, own in groups_of(params))
        self.parameters = tuple(p for group in self.groups for p in group.parameters)
        check_parameters(self.name, self.parameters, self.unused)
        self.count, self.calls = Buffer(np.int64(0), "step"), Buffer(np.int64(0), "calls")
        self.slots = tuple(
            {name: Buffer(value, f"{p.name}.{name}") for name, value in self.start(real_view(p.array), group).items()}
            for group in self.groups for p in group.parameters)
        self.layout = Layout.of(
            (accumulate, self.unused, self._options, tuple(len(group.parameters) for group in self.groups), tuple(
                (p.name, tuple(slots)) for p, slots in zip(self.parameters, self.slots, strict=True))))
        self.sums = tuple(Buffer(np.zeros_like(p.array), f"{p.name}.sum") for p in self.parameters if accumulate > 1)

    def __setattr__(self, name: str, value: Any) -> None:
        if "sums" in self.__dict__:  # made
            if name not in LIMITS:
                raise ArgumentError(f"{self.name} has no option {name!r} to set: options of parameters are those of "
                                    f"groups, as in optimiser.groups[0].lr = 0.01; its own are {', '.join(LIMITS)}")
            check_limit(self.name, name, value)
        self.__dict__[name] = value

    @property
    def accumulate(self) -> int:
        """The gradients of so many calls make one step."""
        return self._accumulate

    def _group(self, tree: Any, options: Mapping[str, Any]) -> Group:
        unknown = options.keys() - set(self._options)
        if unknown:
            raise ArgumentError(f"{self.name}: a group has the option {sorted(unknown)[0]!r}; its options are "
                                f"{', '.join(self._options)}.")
        made = tree_of(tree, "")
        for path, leaf in zip(made.paths, made.leaves, strict=True):
            if isinstance(leaf, Parameter):
                leaf.name = leaf.name or dotted(path)
        group = Group(self.name, [leaf for leaf in made.leaves if isinstance(leaf, Parameter)], options)
        self.check(group)
        return group

    # ------------------------------------------------------------------ what subclasses give
    takes_complex = True
    """Whether there are complex parameters: `start` and `step` see real and imaginary part on a last axis of two."""

    def check(self, group: Group) -> None:
        """Raise ArgumentError for options that make no sense, and for complex parameters."""
        for name in self._options:
            check_option(self.name, name, getattr(group, name))
        for p in group.parameters:
            if kind(str(p.dtype)) == "complex" and not self.takes_complex:
                raise ArgumentError(f"{self.name}: {p.name} is {p.dtype}, and it takes real parameters alone. Keep real"
                                    " and imaginary part as two parameters.")

    def start(self, p: np.ndarray[Any, Any], group: Group) -> Slots:
        """Return the arrays that are kept for a parameter, by name, as they are before the first step.

        `p` is a NumPy array; the group has the options as attributes.
        """
        return {}

    def step(self, p: Any, g: Any, slots: Slots, by: Any) -> tuple[Any, Slots]:
        """Return a parameter's new elements and those of its slots, given its gradient: array code, which is traced.

        `by` has the group's options as attributes, and `count`, the number of this step from 1 as a float64: cast what
        is computed of it to the parameter's dtype. Numbers among options are read in each call; others, such as bools,
        are guarded. Nothing is written here: `minimize` writes what is returned, in training alone, and slots that are
        left out stay.
        """
        raise NotImplementedError

    # ------------------------------------------------------------------ what users call
    @by_path
    def minimize(self, loss: Any) -> None:
        """Move all parameters against the gradient of a loss: more steps of the fused function's program.

        Evaluation leaves out all of it. Call it once a step, after the loss is computed; what the function reads of
        the parameters afterwards is moved already.

        Args:
            loss: one real number of float dtype that the function has computed of the parameters.

        Raises:
            DerivativeError: another loss; a parameter that it does not depend on and `unused` does not name; a
                parameter that the function has written into before; an operator without a derivative; a call outside
                of a fused function.
        """
        run, held, seen = self._entered()
        scale = held.option("loss_scale")
        found = self._gradients(run, seen, loss if scale is None else loss * scale)
        if scale is not None:
            found = [None if g is None else g / scale for g in found]
        with updating(run):
            self._move(held, found, scale is not None)

    def _entered(self) -> tuple[Recorder, Held, list[Any]]:
        """Return the trace that `minimize` is called in, and what it sees of the optimiser and its parameters."""
        run = active()
        if run is None:
            raise NeedsTraceError(
                f"{self.name}.minimize is called outside of a trace: decorate the function with jf.fuse(training=True),"
                f" or give {self.name}.apply the gradients of jf.grad. A fused function that runs as plain Python has "
                "a warning that says why.")
        held = Held.of(run, self, self.layout, self.name)
        seen = self._seen_parameters(held)
        for p, x in zip(self.parameters, seen, strict=True):
            if x._storage.value != x._storage.feed.id:
                raise DerivativeError(
                    f"{self.name}.minimize at {user_line()}: the function has written into {p.name} before, so that "
                    "the loss is not computed of it alone. Minimise first, and write then.")
        return run, held, seen

    def _gradients(self, run: Recorder, seen: list[Any], loss: Any) -> list[Any]:
        """Return the gradients of a loss by the parameters; None by those that it need not depend on."""
        what = f"{self.name}.minimize"
        found: list[Any] = list(gradients_of(run, what, loss, [x._storage.feed.id for x in seen]))
        missing = [p.name for p, g in zip(self.parameters, found, strict=True)
                   if g is None and p.name not in self.unused]
        if missing:
            raise_or_note(DerivativeError(
                f"{what} at {user_line()}: the loss does not depend on {', '.join(missing)}. Leave them out of the "
                "optimiser, or name them: unused=[...]. Arguments of the step must be the optimiser's own parameters."),
                *missing)
        return found

    @by_path
    def apply(self, gradients: Any) -> None:
        """Move all parameters by gradients that are there already, in a fused function or outside.

        Args:
            gradients: a tree with the parameters' names, or a list of one array for each of them, in the order of
                `parameters`. They are taken as they are: `loss_scale` is that of `minimize` alone.

        Raises:
            ArgumentError: other names, or another number of gradients.
            ShapeError: a gradient of another shape than its parameter.
        """
        leaves = by_parameter(self.name, self.parameters, gradients)
        run = active()
        with updating(run):
            self._move(Held.of(run, self, self.layout, self.name), leaves)

    def _move(self, held: Held, gradients: list[Any], checked: bool = False) -> None:
        """Clip the gradients, and make a step with those that there are; `checked`: only if all are finite."""
        due = clipping.all_finite(gradients) if checked else None
        if self.accumulate > 1:
            gradients, due = self._averaged(held, gradients, due)
        gradients = clipping.limited(gradients, held.option("clip_value"), held.option("clip_norm"))
        count = held.part(self.count, "count").seen()
        counted, by_group = count + 1, []
        for k, group in enumerate(self.groups):
            by = self._seen_options(held.part(group, "groups", k), counted * 1.0)
            by_group += [by] * len(group.parameters)
        changes: list[tuple[Any, Any]] = []
        for k, (p, gradient, by) in enumerate(zip(self._seen_parameters(held), gradients, by_group, strict=True)):
            if gradient is None:
                continue
            slots = {name: held.part(buffer, "slots", k, name).seen() for name, buffer in self.slots[k].items()}
            made = self.step(real_view(p), real_view(gradient), dict(slots), by)
            new, kept = made_by_step(self.name, made, slots)
            changes += [(p, complex_view(new, p)), *((slots[name], value) for name, value in kept.items())]
        for array, new in changes:  # once all are computed
            moves(array, new, due)
        moves(count, counted, due)

    def _averaged(self, held: Held, gradients: list[Any], finite: Any) -> tuple[list[Any], Any]:
        """Return the averages of the gradients of several calls, and whether the last of them has come."""
        count = held.part(self.calls, "calls").seen()
        calls = count + 1
        last = calls % self.accumulate == 0
        averages = []
        for k, (gradient, buffer) in enumerate(zip(gradients, self.sums, strict=True)):
            total = held.part(buffer, "sums", k).seen()
            added = total if gradient is None else total + gradient
            averages.append(added / self.accumulate)
            moves(total, _np.where(last, like(added, last * 0.0), added), finite)
        moves(count, calls, finite)
        return averages, last if finite is None else finite & last

    def _seen_parameters(self, held: Held) -> list[Any]:
        return [held.part(p, "parameters", k).seen() for k, p in enumerate(self.parameters)]

    def _seen_options(self, group: Held, number: Any) -> Any:
        options = {name: group.option(name) for name in self._options}
        if callable(options.get("lr")):
            options["lr"] = options["lr"](number - 1.0)
        return types.SimpleNamespace(count=number, **options)

    # ------------------------------------------------------------------ state
    def state_dict(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return copies of the step counter and of what is kept for each parameter, by name."""
        return state_trees.state_dict(self)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` has returned; raises ArgumentError, and changes nothing, where names differ."""
        state_trees.load_state_dict(self, state)

    def buffers(self) -> list[Buffer]:
        """Return the arrays of the optimiser's state: the step counter, and what is kept for each parameter."""
        kept = [buffer for slots in self.slots for buffer in slots.values()]
        return [self.count, *kept, *([self.calls, *self.sums] if self.sums else [])]

    def __repr__(self) -> str:
        size = sum(p.array.nbytes for p in self.parameters)
        kept = sum(b.array.nbytes for b in self.buffers())
        return (f"{self.name}({len(self.parameters)} parameters of {size:,} B, state of {kept:,} B, "
                f"step {self.count.item()})")
