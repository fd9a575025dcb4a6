"""The audit of a train step before training: all that is wrong with it at once, with lines."""
from __future__ import annotations

import types
from collections.abc import Collection
from typing import Any

import numpy as np

from jitfuse.backends.interpreter.runner import ProgramRunner
from jitfuse.compile.run.delivery import bind_feeds
from jitfuse.errors import ArgumentError, DerivativeError
from jitfuse.function.call import Call
from jitfuse.fuse import FusedFunction, fuse
from jitfuse.gradients.findings import collected
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, OpStep
from jitfuse.random_state import state_feeds
from jitfuse.reports import public_methods


def audit(step: Any, *args: Any, exempt: Collection[str] = (), **kwargs: Any) -> None:
    """Check a train step on the arguments of its first call; no state moves, nothing is compiled.

    Reports operators without a derivative, parameters that the loss does not depend on, and the steps that make the
    first infinities and NaNs out of finite numbers, in the loss, in gradients and in what is written.

    Args:
        step: a fused function that calls `minimize`.
        args, kwargs: arguments of a call.
        exempt: names of operators and parameters that are not reported.

    Returns:
        None.

    Raises:
        DerivativeError: all that is found, with lines.

    Example:
        >>> params = jf.nn.parameters({"w": np.zeros(2), "b": np.zeros(2)})
        >>> opt = jf.optim.SGD(params, lr=0.1)
        >>> @jf.fuse(training=True)
        ... def step(x):
        ...     opt.minimize(np.sum(np.log(params["w"]) * np.round(x * params["w"])))
        >>> try:
        ...     jf.optim.audit(step, np.ones(2))
        ... except jf.DerivativeError as error:
        ...     print(str(error).splitlines()[0])
        the audit of step finds 2 faults:
    """
    exempt = (exempt,) if isinstance(exempt, str) else tuple(exempt)
    if isinstance(step, types.MethodType) and isinstance(step.__func__, FusedFunction):
        step, args = step.__func__, (step.__self__, *args)
    if not isinstance(step, FusedFunction):
        raise ArgumentError(f"jf.optim.audit takes a fused function, not a {type(step).__name__}; decorate it with "
                            "jf.fuse(training=True)")
    again = fuse(step.__wrapped__, training=True, name=step.name)
    with collected() as found:
        faults = public_methods.report(lambda call: _non_finite(call, exempt), again.parts, args, kwargs)
    known = [text for about, text in found if not (about and about <= set(exempt))]
    if faults or known:
        listed = [*known, *faults]
        lines = "".join(f"\n- {text}" for text in listed)
        raise DerivativeError(f"the audit of {step.name} finds {len(listed)} fault{'s' * (len(listed) > 1)}:{lines}")


def _non_finite(call: Call, exempt: Collection[str]) -> list[str]:
    """Run the step in the interpreter, and return what makes the first numbers that are not finite."""
    trace, faults = public_methods.traced(call), []
    bound = bind_feeds(trace, call.args, call.kwargs, state_feeds())

    def after(step: OpStep, store: Any) -> None:
        row = ops.get(step.op_name)
        if step.op_name in exempt or row is None or row.kind == ops.CREATION:
            return
        if all(_finite(store[i]) for i in step.input_ids if i in store) and not all(
                _finite(store[r]) for r in step.result_ids):
            kinds = "NaN" if any(np.isnan(np.asarray(store[r].value)).any() for r in step.result_ids) else "infinity"
            faults.append(f"{step.op_name} makes {kinds} of finite numbers, {_line(trace.program, step)}")

    ProgramRunner(trace.program)({feed: bound[feed] for feed in trace.program.feeds}, training=True, after=after)
    return faults


def _line(program: FusedProgram, step: OpStep) -> str:
    return f"at {program.sources.get(step.step_id, 'a line of jitfuse')}"


def _finite(tensor: Any) -> bool:
    value = np.asarray(tensor.value)
    return value.dtype.kind not in "fc" or bool(np.isfinite(value).all())
