"""Every exception and warning that jitfuse raises: what went wrong, where, why, and how to fix it.

User mistakes raise subclasses of `JitfuseError`; `assert` is for jitfuse's own invariants. Imports only records and
reasons of jitfuse.
"""
from __future__ import annotations

import threading
from typing import Any, ClassVar, Final

from jitfuse import reasons
from jitfuse.base.records import NamedTuple
from jitfuse.reasons import Reason


class _Watch(threading.local):
    errors: list[JitfuseError] | None = None


WATCH: Final = _Watch()
"""Records the errors raised in this thread during a trace, because user code might catch them; None: no trace."""


class JitfuseError(Exception):
    """Base class of everything that jitfuse raises on purpose.

    `stands_for`: the reason to give where plain Python answers the call after all.

    Example:
        >>> issubclass(jf.ShapeError, jf.JitfuseError) and issubclass(jf.ShapeError, ValueError)
        True
    """

    stands_for: ClassVar[Reason] = reasons.STRICTER

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if WATCH.errors is not None:
            WATCH.errors.append(self)


class ShapeError(JitfuseError, ValueError):
    """Shapes that do not fit together, an axis out of range, an empty reduction without identity.

    Example:
        >>> jf.asarray([1, 2]) + jf.asarray([1, 2, 3])
        Traceback (most recent call last):
        jitfuse.errors.ShapeError: ...
    """


class AxisError(ShapeError, IndexError):
    """An axis that an array does not have."""


class AxesError(JitfuseError, ValueError):
    """An operation over named axes that is written wrongly, or does not fit its arrays.

    Fields: `code` (one of a closed set, see docs/named-axes.md), `reason` (one line), `written` (the operation, with a
    caret under the place, if it is known), `sizes` (those known so far), `help` (the way out).

    Example:
        >>> from jitfuse.axes import ax, axes, rearrange
        >>> b, n = axes("b", "n")
        >>> rearrange(ax[b, n], ax[n])
        Traceback (most recent call last):
        jitfuse.errors.AxesError: lost_axis: ...
    """

    def __init__(self, code: str, reason: str, *, written: str = "", sizes: str = "", help: str = "") -> None:
        self.code = code
        self.reason = reason
        self.written = written
        self.sizes = sizes
        self.help = help
        known = f"sizes so far: {sizes}" if sizes else ""
        way_out = f"help: {help}" if help else ""
        super().__init__("\n".join(filter(None, (f"{code}: {reason}", written, known, way_out))))

    def __reduce__(self) -> tuple[Any, ...]:
        return _axes_error, (type(self), self.code, self.reason, self.written, self.sizes, self.help)


def _axes_error(kind: type[AxesError], code: str, reason: str, written: str, sizes: str, help: str) -> AxesError:
    return kind(code, reason, written=written, sizes=sizes, help=help)


class ModelError(JitfuseError, ValueError):
    """A factor graph that is no model, a query that does not fit it, or a file that does not follow its format.

    The message names the file and line, or the factor or variable.

    Example:
        >>> jf.factors.FactorGraph({"a": 2}, [(("a",), [0.1, 0.2, 0.7])])
        Traceback (most recent call last):
        jitfuse.errors.ModelError: ...
    """


class TooLargeError(ModelError, MemoryError):
    """Exact inference would need more memory than is allowed; the message has the figures of the best order found.

    Fields: `states` (log2 of the number of elements of the largest table), `bytes` (needed at once), `limit` (allowed).

    Example:
        >>> issubclass(jf.factors.TooLargeError, jf.JitfuseError)
        True
    """

    def __init__(self, message: str, *, states: float = 0.0, bytes: int = 0, limit: int = 0) -> None:
        self.states, self.bytes, self.limit = states, bytes, limit
        super().__init__(message)


class DTypeError(JitfuseError, TypeError):
    """A dtype that an operator does not take, or a result that cannot be cast as asked.

    Example:
        >>> jf.fuse(lambda x: jf.atan2(x, x), strict=True)(np.ones(2, "complex64"))
        Traceback (most recent call last):
        jitfuse.errors.DTypeError: ...
    """


class UnsupportedDTypeError(DTypeError):
    """A dtype that NumPy has and traced arrays have not, such as object."""

    stands_for = reasons.DTYPE


class ArgumentError(JitfuseError, TypeError):
    """An argument of a kind that a fused function cannot take, or a bad operator parameter.

    Example:
        >>> jf.fuse(3)
        Traceback (most recent call last):
        jitfuse.errors.ArgumentError: ...
    """

    stands_for = reasons.ARGUMENT


class NeedsGradientsError(ArgumentError):
    """A tensor that requires gradients, in a call that would lose them."""


class TracedValueError(JitfuseError, TypeError):
    """Python needs the value of a traced array: ``bool()``, ``int()``, ``float()``, ``np.asarray()``.

    Example:
        >>> jf.fuse(lambda x: x * len({float(x[0])}), strict=True)(np.ones(2))
        Traceback (most recent call last):
        jitfuse.errors.TracedValueError: ...
    """

    stands_for = reasons.NEEDED_VALUE


class LeakedTracerError(JitfuseError):
    """A traced value was used after its trace had ended; the message names the line that made it.

    Example:
        >>> issubclass(jf.LeakedTracerError, jf.JitfuseError)
        True
    """


class UntraceableError(JitfuseError):
    """The function did something in its trace that cannot be replayed, such as drawing from np.random.

    Example:
        >>> issubclass(jf.errors.VolatileError, jf.UntraceableError)
        True
    """

    stands_for = reasons.UNREPEATABLE


class DerivativeError(JitfuseError, TypeError):
    """A derivative that does not exist, or that jitfuse has no rule for: the message names the line and the way out.

    Example:
        >>> jf.grad(lambda x: x * 2)(np.ones(3))
        Traceback (most recent call last):
        jitfuse.errors.DerivativeError: ...
    """


class NeedsTraceError(DerivativeError):
    """What needs the trace of a function, such as `minimize`, is called where there is none."""


class OverlapError(JitfuseError):
    """A written array shares memory with another argument; the call runs as plain Python instead.

    Example:
        >>> issubclass(jf.OverlapError, jf.JitfuseError)
        True
    """

    stands_for = reasons.OVERLAP


class ReadOnlyError(JitfuseError, ValueError):
    """The function writes into an array that is read-only."""


class BoundsError(JitfuseError, IndexError):
    """An index leaves its axis, or there are more indices than axes.

    Example:
        >>> jf.fuse(lambda x: x[7])(np.ones(3))
        Traceback (most recent call last):
        jitfuse.errors.BoundsError: ...
    """


class OutOfRangeError(JitfuseError, OverflowError):
    """A Python integer does not fit the dtype of the array it meets."""


class UnsupportedError(JitfuseError, NotImplementedError):
    """A NumPy function, method or option that traced arrays do not have; the message names what to use."""

    stands_for = reasons.UNSUPPORTED


class UnsupportedAttributeError(UnsupportedError, AttributeError):
    """An attribute of NumPy arrays that traced arrays lack."""


class VolatileError(UntraceableError):
    """The function reads state that it changes itself, so Python has to run in every call."""

    stands_for = reasons.UNSEEN


class WideIntError(VolatileError, OutOfRangeError):
    """A Python int leaves 64 bits; the call runs as plain Python."""

    stands_for = reasons.WIDE_INT


class VerifyError(JitfuseError):
    """A program breaks the rules of `jitfuse.ir.analysis.verify`, or a kernel form those of
    `jitfuse.ir.kernels.verify_form`.

    `findings` holds all of them, the message the first hundred.

    Example:
        >>> jf.VerifyError(("one thing",)).findings
        ('one thing',)
    """

    def __init__(self, findings: tuple[str, ...], subject: str = "the program") -> None:
        self.findings = findings
        more = [f"... and {len(findings) - 100} more"] if len(findings) > 100 else []
        super().__init__("\n".join((f"{len(findings)} finding(s) in {subject}:", *findings[:100], *more)))


class CompileError(JitfuseError):
    """A kernel could not be built; the group falls back to the interpreter unless ``strict=True``.

    Example:
        >>> issubclass(jf.errors.KernelTooLargeError, jf.CompileError)
        True
    """

    stands_for = reasons.INTERPRETED


class KernelTooLargeError(CompileError):
    """A kernel from a file is too large to be recompiled for a check."""


class DeviceError(JitfuseError, RuntimeError):
    """A device is missing, cannot be opened, or lacks what an array or a kernel needs; names the adapter."""


class NumericError(JitfuseError, ValueError):
    """A kernel met a value for which NumPy raises, such as an integer raised to a negative power.

    Example:
        >>> jf.fuse(lambda i: i ** -1)(np.array([2, 3]))
        Traceback (most recent call last):
        jitfuse.errors.NumericError: ...
    """


class DivisionByZeroError(JitfuseError, ZeroDivisionError):
    """A Python number is divided by zero, or zero is raised to a negative power."""


class NumberTooLargeError(JitfuseError, OverflowError):
    """A number is too large for a double, or for the array of integers that it is written into."""


class TensorDivisionError(DivisionByZeroError, RuntimeError):
    """An integer of a tensor is divided by zero, where torch raises a RuntimeError."""


class FallbackWarning(UserWarning):
    """Part of a program runs slower than it could; the message says which part and why, with the code of the reason.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("ignore", jf.FallbackWarning)  # or "error", to find what runs as plain Python
    """


class CacheWarning(UserWarning):
    """The disk cache could not be used or an entry was damaged; the process goes on without it.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("ignore", jf.CacheWarning)
    """


class BoundInput(NamedTuple):
    """One input of a failing step: its id, whether the caller or an earlier step makes it, its meta if known."""

    id: int
    bound: bool
    meta: Any = None


class Neighbour(NamedTuple):
    """A step beside a cut wire: how many wires away it is and how it reads in the program's text."""

    step_id: int
    op_name: str
    distance: int
    text: str


class CutWireError(JitfuseError):
    """A program broke at one step; says where, and shows the break from both sides.

    Fields: `reason` (one line), `step_id` and `op_name` (None if the fault is at the boundary),
    `inputs` (tuple of `BoundInput`), `result_id`, `expected` and `actual` (shape and dtype as text, if
    known), `producers` and `consumers` (tuples of `Neighbour`, two wires deep), `source` (file:line of the
    user's code, if known).

    Example:
        >>> print(jf.CutWireError("no value", step_id=3, op_name="add", result_id=7))
        no value
          at step 3: add -> %7
    """

    def __init__(
        self, reason: str, *, step_id: int | None = None, op_name: str | None = None,
        inputs: tuple[BoundInput, ...] = (), result_id: int | None = None, expected: str | None = None,
        actual: str | None = None, producers: tuple[Neighbour, ...] = (),
        consumers: tuple[Neighbour, ...] = (), source: str | None = None,
    ) -> None:
        self.reason = reason
        self.step_id = step_id
        self.op_name = op_name
        self.inputs = inputs
        self.result_id = result_id
        self.expected = expected
        self.actual = actual
        self.producers = producers
        self.consumers = consumers
        self.source = source
        super().__init__(self._text())

    def _text(self) -> str:
        lines = [self.reason]
        if self.step_id is not None:
            lines.append(f"  at step {self.step_id}: {self.op_name} -> %{self.result_id}")
        if self.source:
            lines.append(f"  written at {self.source}")
        for i in self.inputs:
            state = "bound" if i.bound else "MISSING"
            lines.append(f"  input %{i.id}: {state}" + (f", {i.meta}" if i.meta is not None else ""))
        if self.expected is not None or self.actual is not None:
            lines.append(f"  expected {self.expected or '?'}, got {self.actual or '?'}")
        for title, side in (("before the cut", self.producers), ("after the cut", self.consumers)):
            if side:
                lines.append(f"  {title}:")
                lines += [f"    {'  ' * (n.distance - 1)}{n.text}" for n in side]
        return "\n".join(lines)
