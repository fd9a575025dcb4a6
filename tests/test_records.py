"""Records behave as the dataclasses that they stand for, class by class."""
from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from jitfuse.records import Record, fresh


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
