"""Paths: the steps by which views read the memory of arrays, each made once in a run.

Owns `ViewStep` and its canonical objects. A view is one step (a slice, a reshape and so on) from another view, or from
a whole storage. Equal views are one object, so that a storage's cache finds them by identity; views at traced indices
are made anew (`Paths.anew`). Does not own reads and writes along paths (`jitfuse.tracing.record.memory`), nor the
meaning of an index (`jitfuse.tracing.tensor.indexing`).
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from jitfuse.ir.program import Attrs, make_attrs

if TYPE_CHECKING:
    from jitfuse.tracing.tensor.indexing import IndexedRegion

_SPECIAL: Final = frozenset({"broadcast_to", "diagonal", "windows", "real", "imag"})
"""Views with another dtype than their memory, or that must not be written into."""
_MERGED: Final = frozenset({"transpose", "broadcast_to"})
"""Views other than slices and reshapes of which two in a row are merged."""


class ViewStep:
    """One step of a view: `before` is the shape of its base, `shape` its own.

    `of` is the base, None for a whole storage; `others` are further tensors that it reads. `is_special`: this step or
    one before it has rules of its own for writing.
    """

    __slots__ = ("attrs", "before", "is_special", "name", "of", "others", "shape")

    def __init__(
        self, of: ViewStep | None, before: tuple[int, ...], name: str, attrs: Attrs, shape: tuple[int, ...],
        others: tuple[int, ...],
    ) -> None:
        self.of, self.before = of, before
        self.name, self.attrs = name, attrs
        self.shape, self.others = shape, others
        self.is_special: bool = name in _SPECIAL or (of is not None and of.is_special)


def steps(path: ViewStep | None) -> list[ViewStep]:
    """Return the steps from a whole storage to a view."""
    found = []
    while path is not None:
        found.append(path)
        path = path.of
    return found[::-1]


class Paths:
    """The paths of one run."""

    def __init__(self) -> None:
        self._made: dict[Any, ViewStep] = {}
        self.regions: dict[Any, IndexedRegion] = {}
        """The regions of indices, by their base (a path, or the shape of a whole storage) and the index."""

    def clear(self) -> None:
        """Forget everything."""
        self._made.clear()
        self.regions.clear()

    def step(
        self, of: ViewStep | None, before: tuple[int, ...], name: str, attrs: Attrs, shape: tuple[int, ...],
        others: tuple[int, ...] = (),
    ) -> ViewStep:
        """Return the path of a view of `shape`, one step from the path `of` with the shape `before`."""
        key = before if of is None else of, name, attrs, others
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = ViewStep(of, before, name, attrs, shape, others)
        return found

    def anew(self, path: ViewStep) -> ViewStep:
        """Return a new path object of the same view, which replaces the old one."""
        key = path.before if path.of is None else path.of, path.name, path.attrs, path.others
        found = self._made[key] = ViewStep(path.of, path.before, path.name, path.attrs, path.shape, path.others)
        return found

    def sliced(
        self, of: ViewStep | None, before: tuple[int, ...], starts: tuple[int, ...], steps: tuple[int, ...],
        counts: tuple[int, ...],
    ) -> ViewStep:
        """Return the path of a region; a region of a region is merged into one."""
        if of is not None and of.name == "slice":
            attrs: Any = dict(of.attrs)
            starts = tuple([a + b * s for a, b, s in zip(attrs["starts"], starts, attrs["steps"])])
            steps = tuple([s * t for s, t in zip(attrs["steps"], steps)])
            before, of = of.before, of.of
        key = before if of is None else of, starts, steps, counts
        found = self._made.get(key)
        if found is None:
            attrs = ("counts", counts), ("starts", starts), ("steps", steps)
            found = self._made[key] = ViewStep(of, before, "slice", attrs, counts, ())
        return found

    def reshaped(self, of: ViewStep | None, before: tuple[int, ...], shape: tuple[int, ...]) -> ViewStep:
        """Return the path of a view of another shape; only the last of several in a row counts."""
        if of is not None and of.name == "reshape":
            before, of = of.before, of.of
        return self.step(of, before, "reshape", (("shape", shape),), shape)

    def further(
        self, of: ViewStep | None, before: tuple[int, ...], name: str, attrs: Mapping[str, Any], shape: tuple[int, ...]
    ) -> ViewStep:
        """Return the path of a view, merged into the step before it where both are of one kind."""
        if name == "slice":
            return self.sliced(of, before, attrs["starts"], attrs["steps"], shape)
        if name == "reshape":
            return self.reshaped(of, before, shape)
        if of is not None and of.name == name and name in _MERGED:
            if name == "transpose":
                axes: Any = dict(of.attrs)["axes"]
                attrs = {"axes": tuple([axes[a] for a in attrs["axes"]])}
            before, of = of.before, of.of
        return self.step(of, before, name, make_attrs(attrs), shape)
