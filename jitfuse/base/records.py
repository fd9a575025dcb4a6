"""Records and named tuples: classes with named fields that are cheap to define.

`dataclasses` and `typing.NamedTuple` write the methods of every class as text and compile it when the class is made, a
named tuple's annotations too. That is a third of the time to import a package of many small classes. A `Record` shares
its methods with all others. To type checkers, and to `dataclasses.replace`, `fields` and `asdict`, it is a dataclass.
Use `NamedTuple` for objects that are made by the thousand.
"""
from __future__ import annotations

from collections import _tuplegetter  # type: ignore[attr-defined]
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, dataclass_transform


class _Fresh:
    """A default that is made anew for every record."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def fresh(*, default_factory: Callable[[], Any]) -> Any:
    """Return a field default of which every record gets a new one, such as a list."""
    return _Fresh(default_factory)


class DataclassFields:
    """`__dataclass_fields__` of a class, made when a function of `dataclasses` reads it."""

    NAME: Final = "__dataclass_fields__"

    def __get__(self, instance: object, owner: type) -> Mapping[str, Any]:
        from dataclasses import make_dataclass

        made: Mapping[str, Any] = getattr(make_dataclass(owner.__name__, owner._fields), self.NAME)  # type: ignore[attr-defined]
        return made


@dataclass_transform(eq_default=True, frozen_default=False, field_specifiers=(fresh,))
class Record:
    """Base of classes whose annotations are fields, in order, with class attributes as defaults.

    `frozen` forbids assignment. `eq` (the default) compares records of one class field by field, and hashes them if
    they are frozen too. Otherwise records are equal only to themselves.
    """

    __dataclass_fields__: ClassVar[Any] = DataclassFields()
    _fields: ClassVar[tuple[str, ...]] = ()
    _names: ClassVar[frozenset[str]] = frozenset()
    _defaults: ClassVar[dict[str, Any]] = {}
    _fresh: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, *, frozen: bool = False, eq: bool = True) -> None:
        own = vars(cls)
        names = tuple(n for n, kind in own.get("__annotations__", {}).items() if not kind.startswith("ClassVar"))
        cls._fields = (*cls._fields, *names)
        cls.__match_args__ = cls._fields  # type: ignore[attr-defined,misc]
        cls._names = frozenset(cls._fields)
        cls._defaults = {**cls._defaults, **{n: own[n] for n in names if n in own}}
        cls._fresh = tuple(n for n, default in cls._defaults.items() if type(default) is _Fresh)
        if frozen:
            cls.__setattr__ = _raise_frozen  # type: ignore[method-assign,assignment]
            cls.__delattr__ = _raise_frozen  # type: ignore[method-assign,assignment]
        if eq and "__eq__" not in own:
            cls.__eq__ = _equal  # type: ignore[method-assign,assignment]
            cls.__hash__ = _hash if frozen else None  # type: ignore[method-assign,assignment]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        fields, held = self._fields, self.__dict__
        if not kwargs and len(args) == len(fields):
            held.update(zip(fields, args))
        else:
            held.update({**self._defaults, **kwargs})
            held.update(zip(fields, args))
            wrong = held.keys() != self._names or len(args) > len(fields)
            if wrong or not kwargs.keys().isdisjoint(fields[: len(args)]):
                raise TypeError(self._complaint(args, kwargs))
        for name in self._fresh:
            if type(held[name]) is _Fresh:
                held[name] = held[name].make()

    def _complaint(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return the message for wrong fields, as of a function with these parameters."""
        name, fields = type(self).__name__, self._fields
        if len(args) > len(fields):
            return f"{name}() takes {len(fields)} fields, not {len(args)}"
        if twice := [k for k in fields[: len(args)] if k in kwargs]:
            return f"{name}() got two values for {twice[0]!r}"
        if unknown := [k for k in kwargs if k not in self._names]:
            return f"{name}() has no field {unknown[0]!r}"
        return f"{name}() needs {next(f for f in fields if f not in self.__dict__)!r}"

    def replace(self, **changes: Any) -> Self:
        """Return a record that differs in these fields."""
        held = self.__dict__
        return type(self)(**{**{f: held[f] for f in self._fields}, **changes})

    def __repr__(self) -> str:
        inner = ", ".join(f"{f}={self.__dict__[f]!r}" for f in self._fields)
        return f"{type(self).__qualname__}({inner})"


def _values(record: Record) -> tuple[Any, ...]:
    held = record.__dict__
    return tuple(held[f] for f in record._fields)


def _equal(self: Record, other: object) -> Any:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _hash(self: Record) -> int:
    return hash(_values(self))


def _raise_frozen(self: Record, name: str, *value: Any) -> None:
    raise AttributeError(f"{type(self).__name__}.{name} cannot be changed: it is a frozen record")


made: Final = tuple.__new__
"""``made(Kind, (a, b))`` is ``Kind(a, b)`` with all fields given, in half the time: for what calls make per step."""

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    _new = tuple.__new__
    _NEW: Final = (
        lambda cls, a: _new(cls, (a,)),
        lambda cls, a, b: _new(cls, (a, b)),
        lambda cls, a, b, c: _new(cls, (a, b, c)),
        lambda cls, a, b, c, d: _new(cls, (a, b, c, d)),
        lambda cls, a, b, c, d, e: _new(cls, (a, b, c, d, e)),
        lambda cls, a, b, c, d, e, f: _new(cls, (a, b, c, d, e, f)),
        lambda cls, a, b, c, d, e, f, g: _new(cls, (a, b, c, d, e, f, g)),
        lambda cls, a, b, c, d, e, f, g, h: _new(cls, (a, b, c, d, e, f, g, h)),
        lambda cls, a, b, c, d, e, f, g, h, i: _new(cls, (a, b, c, d, e, f, g, h, i)),
    )
    """Makers of tuples of one field, of two and so on; every class gets one with the names of its own fields."""

    class _Kind(type):
        """The metaclass of named tuples: makes fields of a class body's annotations."""

        def __new__(mcs, name: str, bases: tuple[type, ...], own: dict[str, Any]) -> type:
            names = tuple(own.get("__annotations__", ()))
            if names:
                defaults = {field: own[field] for field in names if field in own}
                if names[len(names) - len(defaults) :] != tuple(defaults):
                    raise TypeError(f"{name} has a field without a default behind one that has one")
                own |= {field: _tuplegetter(k, "") for k, field in enumerate(names)}
                own |= {"__slots__": (), "_fields": names, "_field_defaults": defaults, "__match_args__": names}
                own["__new__"] = _maker(names, tuple(defaults.values()))
            return type.__new__(mcs, name, bases, own)

    def _maker(names: tuple[str, ...], defaults: tuple[Any, ...]) -> FunctionType:
        """Return the ``__new__`` of a named tuple, as fast as a handwritten one."""
        listed = ", ".join(names)
        made = _NEW[len(names) - 1] if len(names) <= len(_NEW) else eval(f"lambda cls, {listed}: _new(cls, ({listed}))")
        code = made.__code__.replace(co_varnames=("cls", *names), co_name="__new__")
        return FunctionType(code, globals(), "__new__", defaults)

    class NamedTuple(tuple, metaclass=_Kind):
        """Base of tuples with named items: `typing.NamedTuple` to type checkers, but cheaper to define."""

        __slots__ = ()

        @classmethod
        def _make(cls, values: Iterable[Any]) -> Self:
            made = _new(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"{cls.__name__} has {len(cls._fields)} fields, not {len(made)}")
            return made

        def _replace(self, **changes: Any) -> Self:
            made = _new(type(self), map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"{type(self).__name__} has no field {next(iter(changes))!r}")
            return made

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            inner = ", ".join(f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({inner})"

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)
