"""EinMix' patterns: what is rearranged before and behind, the product, and the shapes of weight and bias.

Owns the rules. Does not own parameters (`jitfuse.einops.layers.torch`).
"""
from __future__ import annotations

import math
import string
import warnings
from collections.abc import Mapping

from jitfuse.base.records import NamedTuple
from jitfuse.einops.errors import Writing
from jitfuse.einops.parsing import ELLIPSIS, Group, Item, Range, Side, arrow, parse


class Mix(NamedTuple):
    """What a pattern of EinMix says. The product takes the input and the weight, each with one axis for each name."""

    before: str | None
    behind: str | None
    product: str
    """The product by names, as `jitfuse.einops.einsum` takes it."""
    einsum_pattern: str
    """The product by letters, as torch's einsum takes it."""
    weight_shape: list[int]
    bias_shape: list[int] | None
    fan_in: int
    """How many elements of the input make one of the output."""


def mix(pattern: str, weight_shape: str, bias_shape: str | None, sizes: Mapping[str, int]) -> Mix:
    """Return what a pattern says.

    Raises:
        EinopsError: names stand where they may not, or sizes are missing.
    """
    writing = _writing(pattern, sizes)
    at = arrow(writing)
    left, right = parse(writing, 0, at), parse(writing, at + 2, len(pattern))
    weight = _flat("weight_shape", weight_shape)
    _check(writing, left, right, weight)
    _check_sizes(writing, left, right, weight, sizes)
    shape = [sizes[name] for name in _names(weight)]
    bias = None if bias_shape is None else _bias(writing, right, bias_shape, sizes)
    summed = math.prod(sizes[name] for name in _names(weight) if name not in right.names)
    flat = [" ".join(map(_written, _names(side))) for side in (left, weight, right)]
    letters = dict(zip(sorted((left.names | right.names | weight.names) - {ELLIPSIS}), string.ascii_letters))
    einsum = ["".join("..." if name == ELLIPSIS else letters[name] for name in _names(side))
              for side in (left, weight, right)]
    return Mix(
        f"{pattern[:at]}-> {flat[0]}" if any(len(group.items) != 1 for group in left.groups) else None,
        f"{flat[2]} ->{pattern[at + 2 :]}" if any(map(_grouped, right.groups)) else None,
        f"{flat[0]}, {flat[1]} -> {flat[2]}", f"{einsum[0]},{einsum[1]}->{einsum[2]}", shape, bias, summed)


def _writing(pattern: str, sizes: Mapping[str, int]) -> Writing:
    return Writing("EinMix", pattern, tuple((name, f"{name}={size!r}") for name, size in sizes.items()), before="")


def _names(side: Side) -> list[str]:
    return [str(item.axis) for item in side.items()]


def _written(name: str) -> str:
    return "..." if name == ELLIPSIS else name


def _grouped(group: Group) -> bool:
    return len(group.items) != 1 or (group.brackets and group.items[0].axis == ELLIPSIS)


def _flat(argument: str, text: str) -> Side:
    """Return the axes of a parameter: names alone."""
    writing = Writing("EinMix", text, before=f"..., {argument}=")
    if not isinstance(text, str):
        raise writing.error("bad_pattern", f"{argument} is no string", help="Write the names of the parameter's axes.")
    side = parse(writing, 0, len(text))
    _check_numbers(writing, side)
    for group in side.groups:
        if group.brackets or group.is_ellipsis:
            raise writing.error("bad_pattern", f"{argument} takes names alone", group.range, help=(
                "A parameter has one axis for each name."))
    return side


def _check_numbers(writing: Writing, side: Side) -> None:
    number = side.number()
    if number is not None:
        raise writing.error("bad_pattern", "EinMix takes no axes without a name", number.range, help=(
            "Give the axis a name, and its size as an argument."))


def _check(writing: Writing, left: Side, right: Side, weight: Side) -> None:
    for side in (left, right):
        _check_numbers(writing, side)
    for item in right.items():
        if item.axis != ELLIPSIS and item.axis not in left.names | weight.names:
            raise writing.error("added_axis", f"{item.axis} is in neither the input nor the weight", item.range, help=(
                "Give it to the weight."))
    if (ELLIPSIS in left.names) != (ELLIPSIS in right.names):
        raise writing.error("lost_axis", "... is on one side alone", _ellipsis(left, right).range, help=(
            "Write it on both sides."))
    for group in left.groups:
        if group.brackets and ELLIPSIS in [item.axis for item in group.items]:
            raise writing.error("bad_pattern", "On the left, `...` stands outside of brackets", group.range, help=(
                "Nothing tells its axes in a merged one."))


def _ellipsis(left: Side, right: Side) -> Item:
    return next(item for side in (left, right) for item in side.items() if item.axis == ELLIPSIS)


def _check_sizes(writing: Writing, left: Side, right: Side, weight: Side, sizes: Mapping[str, int]) -> None:
    for name in _names(weight):
        if name not in sizes:
            place = _place(left, right, name)
            raise writing.error("ambiguous_sizes", f"Nothing tells the size of {name}", place, help=(
                f"Give the sizes of all axes of the weight: {name}=2."))
    for name in sizes:
        if name not in left.names | weight.names:
            raise writing.error("unknown_name", f"{name} is in neither the input nor the weight", name, help=(
                "Leave its size out."))
    for name in _names(weight):
        if name not in left.names | right.names:
            raise writing.error("lost_axis", f"{name} is in the weight alone", help=(
                "Axes of the weight are in the input or in the output."))
    if not weight.groups:
        warnings.warn("EinMix: weight has no dimensions (means multiplication by a number)", stacklevel=2)


def _place(left: Side, right: Side, name: str) -> Range | None:
    return next((item.range for side in (left, right) for item in side.items() if item.axis == name), None)


def _bias(writing: Writing, right: Side, text: str, sizes: Mapping[str, int]) -> list[int]:
    """Return the bias' shape: an axis for each name of the output, of size 1 where the bias does not have it."""
    side = _flat("bias_shape", text)
    for name in _names(side):
        if name not in right.names:
            raise writing.error("unknown_name", f"The bias has {name}, and the output has not", help=(
                "A bias has axes of the output."))
        if name not in sizes:
            place = _place(right, right, name)
            raise writing.error("ambiguous_sizes", f"Nothing tells the size of {name}", place, help=(
                f"Give the sizes of all axes of the bias: {name}=2."))
    shape: list[int] = []
    for item in right.items():
        if item.axis != ELLIPSIS:
            shape.append(sizes[str(item.axis)] if item.axis in side.names else 1)
        elif any(name in side.names for name in _names(right)[: _names(right).index(ELLIPSIS)]):
            raise writing.error("bad_pattern", "The bias has axes before `...`", item.range, help=(
                "In the output, axes of the bias stand behind `...`."))
    return shape
