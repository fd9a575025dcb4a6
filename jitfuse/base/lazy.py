"""Properties that are computed once. Owns nothing else."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

_T = TypeVar("_T")


class cached_property(Generic[_T]):  # noqa: N801 -- it stands in for functools.cached_property
    """A property that is computed at its first use and then lies in the instance's ``__dict__``.

    Like that of functools in Python 3.12 and later. That of 3.11 holds one lock for all instances: a forked child
    would wait for a thread that it does not have, and threads wait for one another.
    """

    def __init__(self, compute: Callable[[Any], _T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> cached_property[_T]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> _T: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> cached_property[_T] | _T:
        if instance is None:
            return self
        found = instance.__dict__[self._name] = self._compute(instance)
        return found
