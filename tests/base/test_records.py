"""Records and named tuples behave as the classes of the standard library that they stand for."""
from __future__ import annotations

import copy
import dataclasses
import pickle
import typing
from typing import Any

import pytest

from jitfuse.base.records import NamedTuple, Record, fresh


class Point(Record, frozen=True):
    """Compared and hashed by its fields."""

    x: int
    y: int = 2


class Named(Point, frozen=True):
    """Has the fields of its base, then its own."""

    name: str = "p"


class Bag(Record):
    """Compared by its fields, and changed."""

    items: list[int] = fresh(default_factory=list)


class Place(Record, frozen=True, eq=False):
    """Equal to itself alone."""

    x: int


def test_fields_come_by_position_by_name_and_by_default() -> None:
    assert (Point(1).x, Point(1).y, Point(y=3, x=1).y) == (1, 2, 3)
    assert Named(1, name="q") == Named(1, 2, "q") != Named(1)
    assert repr(Named(1)) == "Named(x=1, y=2, name='p')"


@pytest.mark.parametrize(("args", "kwargs", "message"), [
    ((), {}, "needs 'x'"), ((1, 2, 3), {}, "takes 2 fields"), ((1,), {"x": 1}, "two values for 'x'"),
    ((1,), {"z": 1}, "no field 'z'"),
])
def test_wrong_fields_are_type_errors(args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Point(*args, **kwargs)


def test_equality_and_hashing() -> None:
    assert Point(1) == Point(1, 2) != Point(2) and hash(Point(1)) == hash(Point(1, 2))
    assert Point(1) != Named(1) and Point(1) != (1, 2)
    assert Place(1) != Place(1) and len({Place(1), Place(1)}) == 2
    with pytest.raises(TypeError):
        hash(Bag())


def test_frozen_records_refuse_changes() -> None:
    point: Any = Point(1)
    with pytest.raises(AttributeError, match="frozen"):
        point.x = 2
    with pytest.raises(AttributeError, match="frozen"):
        del point.x
    bag = Bag()
    bag.items = [1]
    assert bag == Bag([1])


def test_defaults_that_change_are_made_anew() -> None:
    first, second = Bag(), Bag()
    first.items.append(1)
    assert second.items == []


def test_they_are_dataclasses_to_the_standard_library() -> None:
    assert dataclasses.is_dataclass(Point) and dataclasses.is_dataclass(Point(1))
    assert [f.name for f in dataclasses.fields(Named)] == ["x", "y", "name"]  # type: ignore[arg-type]
    assert dataclasses.replace(Point(1), y=5) == Point(1, 5) == Point(1).replace(y=5)  # type: ignore[type-var]
    assert dataclasses.asdict(Named(1)) == {"x": 1, "y": 2, "name": "p"}  # type: ignore[call-overload]


def test_they_match_by_position() -> None:
    match Named(1, 3, "q"):
        case Named(x, y, name):
            assert (x, y, name) == (1, 3, "q")
        case _:
            pytest.fail("no match")


def test_copies_are_equal() -> None:
    assert copy.copy(Point(1)) == copy.deepcopy(Point(1)) == pickle.loads(pickle.dumps(Point(1))) == Point(1)


class Pair(NamedTuple):
    """Unpacked and compared as the tuple that it is."""

    x: int
    y: int = 2

    @property
    def total(self) -> int:
        """A method of its own."""
        return self.x + self.y


class StandardPair(typing.NamedTuple):
    """What `Pair` stands for."""

    x: int
    y: int = 2


class Wide(NamedTuple):
    """Has more fields than most."""

    a: int
    b: int
    c: int
    d: int
    e: int
    f: int
    g: int
    h: int
    i: int
    j: int
    k: int = 11


class Narrow(NamedTuple):
    """Has one."""

    a: tuple[int, ...]


@pytest.mark.parametrize(("args", "kwargs"), [((1, 5), {}), ((1,), {}), ((), {"y": 3, "x": 1}), ((4,), {"y": 3})])
def test_named_tuples_are_those_of_the_standard_library(args: Any, kwargs: Any) -> None:
    ours, other = Pair(*args, **kwargs), StandardPair(*args, **kwargs)
    assert ours == other and tuple(ours) == tuple(other) and hash(ours) == hash(other)
    assert (ours.x, ours.y, ours[1], len(ours), ours.total) == (other.x, other.y, other[1], 2, other.x + other.y)
    assert repr(ours) == f"Pair(x={ours.x}, y={ours.y})" and ours._asdict() == other._asdict()
    assert ours._replace(y=9) == other._replace(y=9) and type(ours._replace(y=9)) is Pair
    assert Pair._make([1, 2]) == StandardPair._make([1, 2])
    for copied in (copy.copy(ours), copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert copied == ours and type(copied) is Pair
    assert Pair._fields == StandardPair._fields and Pair._field_defaults == StandardPair._field_defaults
    assert not hasattr(ours, "__dict__")


@pytest.mark.parametrize("wrong", [
    lambda kind: kind(), lambda kind: kind(1, 2, 3), lambda kind: kind(1, x=2), lambda kind: kind(1, z=2),
    lambda kind: kind._make([1]), lambda kind: kind._make([1, 2, 3]),
])
def test_wrong_items_of_named_tuples_are_type_errors(wrong: Any) -> None:
    for kind in (Pair, StandardPair):
        with pytest.raises(TypeError):
            wrong(kind)


def test_named_tuples_refuse_changes() -> None:
    pair: Any = Pair(1)
    with pytest.raises(AttributeError):
        pair.x = 2
    with pytest.raises(AttributeError):
        pair.z = 2
    with pytest.raises(ValueError, match="z"):
        pair._replace(z=1)
    with pytest.raises(TypeError, match="without a default"):
        type(NamedTuple)("Wrong", (NamedTuple,), {"__annotations__": {"x": "int", "y": "int"}, "x": 1})


def test_named_tuples_of_any_width() -> None:
    assert tuple(Wide(*range(10))) == (*range(10), 11) and Wide(*range(11)).k == 10
    assert Narrow((1, 2)).a == (1, 2) and Narrow((1, 2)) == ((1, 2),)
    match Pair(1, 3):
        case Pair(x, y):
            assert (x, y) == (1, 3)
