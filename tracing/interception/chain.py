"""Access paths of values, and the conditions under which a trace stays valid.

Owns `Chain` (an access path: a root plus attribute, key and index steps that can be walked again at any time), `Guard`
(one condition on the value at the end of a chain) and `GuardLog` (all conditions of one trace). Does not own what is
guarded (`jitfuse.tracing.interception.reader`).
"""
from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from jitfuse.base.floats import exact_text, float_text
from jitfuse.base.records import Record, fresh
from jitfuse.tracing.interception.exact import exact_form
from jitfuse.tracing.interception.swap import original_code

_NUMBERS: Final = (bool, int, float, complex)
_SYMBOLS: Final = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "and_": "&",
    "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=",
}


class Chain:
    """An access path: a root or a parent chain, and one step. Compared by content.

    kind and value: "arg" (position or keyword name), "global" (namespace dict, name; builtins too), "cell" (a closure
    cell), "object" (the object itself), and the steps "attr" (name), "key" (any key; walked by ``[]``) and "index" (of
    an exact list or tuple, not negative). "computed" is an operator of Python's over one or two numbers, which are at
    the end of other chains or constants: (the function, the operands).
    """

    __slots__ = ("__weakref__", "_hash", "_identity", "_label", "_steps", "kind", "parent", "value")

    def __init__(self, parent: Chain | None, kind: str, value: Any, label: str | None = None) -> None:
        self.parent = parent
        self.kind = kind
        self.value = value
        self._label = label
        self._identity = _identity(kind, value)
        self._hash = hash((parent, kind, self._identity))
        # weakly, because a step holds its parent: chains, and with them the user's function, die with their last user
        self._steps: dict[Any, weakref.ref[Chain]] = {}

    @staticmethod
    def arg(parameter: int | str, label: str | None = None) -> Chain:
        """Root at a positional (int) or keyword (str) argument of the fused call."""
        default = f"args[{parameter}]" if isinstance(parameter, int) else parameter
        return Chain(None, "arg", parameter, label or default)

    @staticmethod
    def name(namespace: dict[str, Any], name: str, label: str | None = None) -> Chain:
        """Root at a name in a module's globals or in the builtins."""
        return Chain(None, "global", (namespace, name), label or name)

    @staticmethod
    def cell(cell: types.CellType, name: str) -> Chain:
        """Root at the content of a closure cell."""
        return Chain(None, "cell", cell, name)

    @staticmethod
    def object(value: Any, label: str | None = None) -> Chain:
        """Root at an object that the program holds; the chain that led to it is guarded."""
        name = getattr(value, "__qualname__", None) or f"<{type(value).__name__}>"
        return Chain(None, "object", value, label or str(name))

    @staticmethod
    def computed(function: Callable[..., Any], operands: tuple[Chain | bool | int | float | complex, ...]) -> Chain:
        """Root at what an operator of Python's makes of numbers."""
        shown = [f"({x})" if isinstance(x, Chain) and x.kind == "computed" else str(x) for x in operands]
        symbol = _SYMBOLS.get(function.__name__)
        label = f"{function.__name__}({', '.join(shown)})" if symbol is None else f" {symbol} ".join(shown)
        return Chain(None, "computed", (function, operands), label)

    def attr(self, name: str) -> Chain:
        """Return the chain one attribute further."""
        return self._step("attr", name)

    def key(self, key: Any) -> Chain:
        """Return the chain one ``[key]`` further."""
        return self._step("key", key)

    def index(self, index: int) -> Chain:
        """Return the chain of one item of an exact list or tuple."""
        return self._step("index", index)

    def _step(self, kind: str, value: Any) -> Chain:
        identity = (kind, _identity(kind, value))
        known = self._steps.get(identity)
        step = known() if known is not None else None
        if step is None:
            step = Chain(self, kind, value)
            self._steps[identity] = weakref.ref(step)
        return step

    def resolve(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Walk the chain now. Raises what the walk raises (AttributeError, KeyError, ValueError, ...)."""
        if self.parent is not None:
            owner = self.parent.resolve(args, kwargs)
            if self.kind != "attr":
                return owner[self.value]
            if self.value == "__code__" and isinstance(owner, types.FunctionType):
                return original_code(owner)
            return getattr(owner, self.value)
        if self.kind == "arg":
            return args[self.value] if isinstance(self.value, int) else (kwargs or {})[self.value]
        if self.kind == "global":
            namespace, name = self.value
            return namespace[name]
        if self.kind == "computed":
            function, operands = self.value
            values = [x.resolve(args, kwargs) if isinstance(x, Chain) else x for x in operands]
            if not all(type(value) in _NUMBERS for value in values):
                raise TypeError("operators of other types may have effects")
            return function(*values)
        return self.value.cell_contents if self.kind == "cell" else self.value

    @property
    def root(self) -> Chain:
        """The root of the chain."""
        chain = self
        while chain.parent is not None:
            chain = chain.parent
        return chain

    def __eq__(self, other: Any) -> bool:
        if self is other:
            return True
        return bool(isinstance(other, Chain) and self._hash == other._hash and self.kind == other.kind
                    and self._identity == other._identity and self.parent == other.parent)

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        if self.parent is None:
            return self._label or self.kind
        return f"{self.parent}.{self.value}" if self.kind == "attr" else f"{self.parent}[{self.value!r}]"

    def __repr__(self) -> str:
        return f"Chain({self})"


def _identity(kind: str, value: Any) -> Any:
    if kind == "global":
        return id(value[0]), value[1]
    if kind in {"cell", "object"}:
        return id(value)
    if kind == "computed":
        function, operands = value
        return function, tuple(x if isinstance(x, Chain) else (type(x), exact_text(x)) for x in operands)
    return type(value), value


def equal(a: Any, b: Any) -> bool:
    """Tell whether two values have the same exact type and compare equal; False where ``==`` raises."""
    if a is b:
        return True
    if type(a) is float and type(b) is float:
        return float_text(a) == float_text(b)  # distinguishes 0.0 from -0.0; NaN is equal to itself
    if type(a) is complex and type(b) is complex:
        return equal(a.real, b.real) and equal(a.imag, b.imag)
    try:
        if isinstance(a, np.generic):
            return type(a) is type(b) and bool(exact_form(a) == exact_form(b))
        return type(a) is type(b) and bool(a == b) and exact_form(a) == exact_form(b)
    except Exception:
        return False


def _absent(owner: Any, key: Any) -> bool:
    return key not in owner


_CHECKS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "IS": lambda value, expected: value is expected,
    "TYPE": lambda value, expected: type(value) is expected,
    "EQ": equal,
    "LEN": lambda value, expected: isinstance(value, dict | list | tuple) and len(value) == expected,
    "KEYS": lambda value, expected: isinstance(value, dict) and equal(tuple(value), expected),
    "ABSENT": _absent,
}


class Guard(Record, frozen=True):
    """One condition on the value at the end of a chain.

    kind and expected: IS (the object), DISTINCT (a chain that leads to another object), TYPE (the exact type), EQ (same
    exact type and equal, with equal types of the items), LEN (length of a list, tuple or dict), KEYS (a dict's keys in
    order; implies LEN), ABSENT (a key that the dict at the end of the chain lacks; `count` is the number of keys that
    it had, so that LEN can replace it).
    """

    chain: Chain
    kind: str
    expected: Any
    count: int = 0

    @property
    def key(self) -> Any:
        """The identity of a guard in one trace: a chain has one of each kind, except ABSENT and DISTINCT."""
        return self.chain, self.kind, self.expected if self.kind in ("ABSENT", "DISTINCT") else None

    def check(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> bool:
        """Tell whether the condition holds now; it does not where the chain cannot be walked."""
        try:
            if self.kind == "DISTINCT":
                return self.chain.resolve(args, kwargs) is not self.expected.resolve(args, kwargs)
            return _CHECKS[self.kind](self.chain.resolve(args, kwargs), self.expected)
        except Exception:
            return False

    def why_failed(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> str | None:
        """Return None where the condition holds, else one line with the chain, the expected and the present value."""
        try:
            value = self.chain.resolve(args, kwargs)
        except Exception as error:
            return f"{self.chain}: cannot be read any more ({type(error).__name__}: {error})"
        if self.check(args, kwargs):
            return None
        now: Any = {"TYPE": type(value).__name__, "LEN": len(value) if hasattr(value, "__len__") else "no length",
                    "KEYS": list(value) if isinstance(value, dict) else type(value).__name__,
                    "ABSENT": "present", "DISTINCT": "the same"}.get(self.kind, _short(value))
        return f"{self.chain}: {self._was()}, is {now}"

    def _was(self) -> str:
        if self.kind == "TYPE":
            return f"type was {self.expected.__name__}"
        if self.kind == "ABSENT":
            return f"{self.expected!r} was absent"
        if self.kind == "DISTINCT":
            return f"was another object than {self.expected}"
        word = {"LEN": "length", "KEYS": "keys"}.get(self.kind)
        return f"{word} was {self.expected}" if word else f"was {_short(self.expected)}"

    def __str__(self) -> str:
        relation = {"IS": "is", "TYPE": "has type", "EQ": "==", "LEN": "has length", "KEYS": "has keys",
                    "ABSENT": "lacks", "DISTINCT": "is not"}[self.kind]
        if self.kind == "DISTINCT":
            return f"{self.chain} {relation} {self.expected}"
        shown = self.expected.__name__ if self.kind == "TYPE" else _short(self.expected)
        return f"{self.chain} {relation} {shown}"


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = object.__repr__(value)
    return text if len(text) <= 80 else text[:77] + "..."


class GuardLog(Record):
    """What one trace depends on.

    `guards` in the order in which they were first needed; `feeds`: the chains passed to the hooks as arrays and
    numbers, with their values at the time; `volatile`: reasons why the trace is not cacheable, so that Python must run
    at each call (empty in the usual case).
    """

    guards: list[Guard] = fresh(default_factory=list)
    feeds: list[tuple[Chain, Any]] = fresh(default_factory=list)
    volatile: list[str] = fresh(default_factory=list)

    def check(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> bool:
        """Tell whether all guards hold now."""
        return not self.volatile and all(guard.check(args, kwargs) for guard in self.guards)

    def why_failed(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> str | None:
        """Return one line on the first guard that does not hold, or None."""
        if self.volatile:
            return self.volatile[0]
        return next((why for guard in self.guards if (why := guard.why_failed(args, kwargs))), None)
