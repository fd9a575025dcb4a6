"""The tracing environment of one trace: the run itself, and the effects of what the function wrote.

Owns `TracingEnvironment` and `run`. What the probes of rewritten code call is in `jitfuse.tracing.interception.loads`
and `...stores`, containers are in `...container_proxies`, the bookkeeping in `...bookkeeping`.
"""
from __future__ import annotations

import enum
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse.errors import JitfuseError, UntraceableError
from jitfuse.tracing.interception import assembler, probes
from jitfuse.tracing.interception.chain import Chain, GuardLog
from jitfuse.tracing.interception.container_proxies import leak, write_back
from jitfuse.tracing.interception.stores import Stores
from jitfuse.tracing.interception.user_code import claim, class_member, is_user_class

if TYPE_CHECKING:
    from jitfuse.tracing.interception.hooks import Hooks


_PINNED: Final = (
    type(None), bool, int, float, complex, str, bytes, np.generic, np.dtype, enum.Enum, type, types.BuiltinFunctionType,
    types.ModuleType, range, slice,
)
_NEW, _INIT = vars(object)["__new__"], vars(object)["__init__"]
_FUNCTIONS: Final = frozenset({types.FunctionType, types.MethodType, types.BuiltinFunctionType})


class TracingEnvironment(Stores):
    """The tracing environment of one trace. Not shared between threads; may be nested."""

    def __init__(self, hooks: Hooks) -> None:
        super().__init__(hooks)
        self._settled = False
        self._delivered: set[int] = set()
        """The ids of the writes and proxies whose effects calls deliver."""

    def run(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call the function, and run all user code that it reaches rewritten.

        args and kwargs are passed as they are: `read` must have seen all that was not made in the trace. Errors of the
        function propagate. Call `commit` or `rollback` afterwards.
        """
        if not assembler.IS_KNOWN:
            raise UntraceableError(
                f"the instructions of {sys.implementation.name} {sys.version.split()[0]} are not known: functions are"
                " traced on CPython 3.11, 3.12 and 3.13 with the GIL"
            )
        fn = self._adopt_callable(fn)
        token = probes.current.set(self)
        try:
            self.exchange()
            return fn(*args, **kwargs)
        finally:
            probes.current.reset(token)
            self.release()

    def _adopt_callable(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Intercept the decorated function, method, partial or callable object; return what to call."""
        target = fn.__func__ if isinstance(fn, types.MethodType) else fn
        if isinstance(target, types.FunctionType):
            claim(target)
        seen: Callable[..., Any] = self.read(Chain.object(fn), fn)
        return seen

    def rebound(self) -> list[tuple[Chain, Any, bool]]:
        """Return the chains that calls bind, with the function's value for each and whether it is a new item. Call this
        once, when the function has ended.

        `commit` restores their old values, as `rollback` does for all writes: only calls bind them.
        """
        if not self.written and not any(proxy.changed() for proxy in self.proxies.values()):
            return []
        from jitfuse.tracing.interception.rebinding import rebound  # few functions write state

        found, self._delivered = rebound(self)
        return found

    def path_of(self, value: Any) -> Chain | None:
        """Return the chain of a container or object of the caller's; None for others, and those guarded by identity."""
        real = self.real(value)
        self.reject_unknown_origin(real)
        if id(real) in self.proxies:
            return self.proxies[id(real)].chain
        found = self.origin.get(id(real))
        pinned = isinstance(real, _PINNED) or self.hooks.is_traced(value) or self.hooks.is_array(real)
        return None if found is None or pinned else found[1]

    def altered(self) -> list[Any]:
        """Return items that differ, by identity, once the function has written real state."""
        changed = (s.seen for s in self.proxies.values() if s.changed())
        items = ([*seen, *seen.values()] if isinstance(seen, dict) else seen for seen in changed)
        return [self.stores, *(item for some in items for item in some)]

    def settle(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> list[str]:
        """Decide what the function's writes mean, without changing real containers; return `GuardLog.volatile`.

        args and kwargs are the call's own, for chains that start at an argument. If the result is not empty, the trace
        is not cacheable: `commit` and use it once, or `rollback` and run the function.
        """
        if not self._settled:
            self._settled = True
            changed = [s.chain for s in self.proxies.values() if s.changed() and id(s) not in self._delivered]
            changed += [s.chain for s in self.snapshots.values() if s.changed()]
            self.guard_log.volatile += [f"{chain} is changed by the function" for chain in changed]
            rest = [write for write in self.written.values() if id(write) not in self._delivered]
            self.settle_writes(rest)
        return self.guard_log.volatile

    def commit(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> None:
        """Settle, apply changes of proxies to the real containers, and restore what calls will bind.

        Raises UntraceableError where a traced value would stay in a container; then no container is changed.
        """
        self.settle(args, kwargs)
        for write in reversed(self.written.values()):
            if id(write) in self._delivered:
                write.restore()
        changed = [s for s in self.proxies.values() if s.changed() and id(s) not in self._delivered]
        for proxy in changed:
            for value in proxy.seen.values() if isinstance(proxy.seen, dict) else proxy.seen:
                self._container_value(str(proxy.chain), value)
        for proxy in changed:
            write_back(proxy, self._container_value)

    def rollback(self) -> None:
        """Restore what the function wrote to globals, closure cells and attributes; drop all proxies."""
        for write in reversed(self.written.values()):
            write.restore()
        self.written.clear()

    def _container_value(self, target: str, value: Any) -> Any:
        found = self.reals.get(id(value))
        if found is not None:
            return found[1]
        if not self.hooks.is_traced(value):
            return value
        stored = self.hooks.stored(target, value)
        if self.hooks.is_traced(stored):
            raise leak(target)
        return stored

    # methods for the substitutes

    def same(self, left: Any, right: Any) -> bool:
        """Compute ``left is right``; two objects with chains are guarded by identity.

        A traced bool is compared as True or False itself, as in ``training is True``. No guard says whether two arrays
        are one, so if they could be, Python runs at each call.
        """
        left, right = self.hooks.identified(left, right)
        left, right = self._constant(left, right), self._constant(right, left)
        if left is not right and self._may_be_int(left) and self._may_be_int(right):
            left, right = self.read_value(left), self.read_value(right)  # equal small ints are one object
        a, b = self.origin.get(id(left)), self.origin.get(id(right))
        if a is not None and b is not None and a[0] is left and b[0] is right:
            self.guard(a[1], "IS", left)
            self.guard(b[1], "IS", right)
        if left is not right and self._may_be_one(left, right):
            self.guard_log.volatile.append("the function asks whether two arrays are one")
        return left is right

    def _may_be_int(self, value: Any) -> bool:
        """Return whether a value is a Python int, or the proxy of one."""
        return type(value) is int or (self.hooks.is_traced(value) and getattr(value, "weak", False)
                                      and str(value.dtype) == "int64")

    def read_value(self, value: Any) -> Any:
        """Return the concrete value of a traced number, by a graph break if needed; other values as they are."""
        return self.hooks.read_value(value) if self.hooks.is_traced(value) else value

    def _may_be_one(self, left: Any, right: Any) -> bool:
        """Return whether two proxies are of arrays that another call could pass as one: shape and dtype are equal."""
        if not (self.hooks.is_traced(left) and self.hooks.is_traced(right)):
            return False
        found = [self.reals.get(id(v)) for v in (left, right)]
        if any(f is None or not self.hooks.is_array(f[1]) for f in found):
            return False
        one, two = ((getattr(f[1], "shape", None), str(getattr(f[1], "dtype", None))) for f in found if f is not None)
        return one == two

    def _constant(self, value: Any, other: Any) -> Any:
        if type(other) is bool and self.hooks.is_traced(value) and not self.is_traced_array(value):
            return self.hooks.concrete(value)
        return value

    def mark_fresh(self, value: Any) -> None:
        """Record an object made in the trace: its attributes are the trace's own."""
        if id(value) not in self.origin:
            self.fresh[id(value)] = value

    def maker(self, value: Any) -> Any:
        """Return what to call in place of a callee."""
        if not isinstance(value, type):
            return value if type(value) in _FUNCTIONS else self.hooks.called(value)
        plainly = class_member(value, "__new__") is _NEW and class_member(value, "__init__") is _INIT
        if not plainly or type(value).__call__ is not type.__call__ or not is_user_class(value):
            return self.hooks.called(value)

        def make(*args: Any, **kwargs: Any) -> Any:  # no `__init__` shows that the object is new
            made = value(*args, **kwargs)
            self.mark_fresh(made)
            return made

        return make

    def is_traced_array(self, value: Any) -> bool:
        """Tell whether a value is a proxy that cannot be made concrete."""
        if not self.hooks.is_traced(value):
            return False
        try:
            self.hooks.concrete(value)
        except (JitfuseError, TypeError):
            return True
        return False

    def plain(self, value: Any) -> Any:
        """Return the real or concrete value of a proxy; this counts as a read of a value."""
        return self.hooks.concrete(value) if self.hooks.is_traced(value) else self.real(value)


def run(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], hooks: Hooks) -> tuple[Any, GuardLog]:
    """Trace one call: read the arguments, run, commit. Returns the result and its guard log."""
    environment = TracingEnvironment(hooks)
    seen = [environment.read(Chain.arg(index), value) for index, value in enumerate(args)]
    named = {name: environment.read(Chain.arg(name), value) for name, value in kwargs.items()}
    result = environment.run(fn, seen, named)
    environment.commit(args, kwargs)
    return result, environment.guard_log
