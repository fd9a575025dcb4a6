"""Options of optimisers: of groups of parameters, and of the optimiser itself; what they may be.

Owns `Group`, `Layout` and the checks. Does not own what options mean.
"""
from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Final, TypedDict

import numpy as np

from jitfuse.arrays.state import Parameter
from jitfuse.arrays.state_trees import dotted
from jitfuse.errors import ArgumentError, ShapeError
from jitfuse.tracing.results.trees import tree_of

Schedule = Callable[[Any], Any]
"""The learning rate by the number of steps so far, as array code (`jitfuse.optim.schedules`)."""
LIMITS: Final = ("clip_value", "clip_norm", "loss_scale")
"""Options of an optimiser that can be set later."""
KEEPING: Final = frozenset({"momentum", "amsgrad", "centered"})
"""Options that decide which arrays are kept for a parameter."""


class Common(TypedDict, total=False):
    """The options of every optimiser."""

    clip_value: float | None
    clip_norm: float | None
    loss_scale: float | None
    accumulate: int
    unused: Sequence[str]


class Layout:
    """What Python decides by in the steps of an optimiser: objects of equal layouts share it, and so traces."""

    __slots__ = ("__weakref__", "content")
    _known: Final[weakref.WeakValueDictionary[Hashable, Layout]] = weakref.WeakValueDictionary()

    @staticmethod
    def of(content: Hashable) -> Layout:
        """Return the layout of a content."""
        found = Layout._known.get(content)
        if found is None:
            found = Layout()
            found.content = content
        return Layout._known.setdefault(content, found)

    content: Hashable

    def __reduce__(self) -> Any:
        return Layout.of, (self.content,)


class Group:
    """Parameters with options of their own: `optimiser.groups[0].lr = 0.01` counts from the next call on."""

    read_by_path = True
    owner: str
    parameters: tuple[Parameter, ...]

    def __init__(self, owner: str, parameters: Sequence[Parameter], options: Mapping[str, Any]) -> None:
        self.__dict__.update(options, owner=owner, parameters=tuple(parameters))

    def __setattr__(self, name: str, value: Any) -> None:
        old = self.__dict__.get(name)
        if name in ("owner", "parameters") or name not in self.__dict__:
            raise ArgumentError(f"{self.owner}: a group has no option {name!r} to set")
        check_option(self.owner, name, value)
        if name in KEEPING and bool(old) is not bool(value):
            raise ArgumentError(f"{self.owner}: {name} decides which arrays are kept; make another optimiser "
                                f"for {value}")
        self.__dict__[name] = value


def check_option(owner: str, name: str, value: Any) -> None:
    """Raise ArgumentError for numbers that an option cannot have."""
    numbers = value if isinstance(value, tuple) else (value,)
    known = all(
        isinstance(x, bool | int | float | np.number) or getattr(x, "shape", None) == () or (
            x is None and name == "eps") or (callable(x) and name == "lr") for x in numbers)
    if not known or (name == "betas" and (not isinstance(value, tuple) or len(value) != 2)):
        raise ArgumentError(f"{owner}: {name} is {value!r}, and must be " + (
            "a pair of numbers" if name in ("betas", "etas", "step_sizes") else "a number or a function of the number "
            "of steps" if name == "lr" else "a number"))
    for x in numbers:
        if isinstance(x, int | float | np.number) and name != "beta2_decay" and not (
                x >= 0 and (name != "betas" or x < 1)):
            raise ArgumentError(f"{owner}: {name} is {value}, and must be 0 or more" + ", below 1" * (name == "betas"))


def check_limit(owner: str, name: str, value: Any) -> None:
    """Raise ArgumentError unless a limit is a number above 0, or None."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if value is not None and not (number and value > 0):
        raise ArgumentError(f"{owner}: {name} is {value!r}, and must be a number above 0, or None")


def groups_of(params: Any) -> list[tuple[Any, dict[str, Any]]]:
    """Return the tree and the own options of each group; a tree without groups is one."""
    if isinstance(params, dict) and "params" in params:
        params = [params]
    if isinstance(params, list | tuple) and any(isinstance(x, dict) and "params" in x for x in params):
        if not all(isinstance(x, dict) and "params" in x for x in params):
            raise ArgumentError('groups are dicts with "params" each, and one of them is none')
        return [(x["params"], {name: value for name, value in x.items() if name != "params"}) for x in params]
    return [(params, {})]


def check_parameters(name: str, parameters: Sequence[Parameter], unused: frozenset[str]) -> None:
    """Raise ArgumentError for no parameters, one that is given twice, and names that are not unique or not there."""
    if not parameters:
        raise ArgumentError(f"{name}: there is no jf.Parameter among params; make a tree's arrays parameters with "
                            "jf.nn.parameters(tree)")
    if len({id(p) for p in parameters}) < len(parameters):
        raise ArgumentError(f"{name}: a parameter is in two places of params or groups; give each once")
    names = [p.name for p in parameters]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise ArgumentError(f"{name}: two parameters are named {twice!r}; give them names of their own")
    unknown = sorted(unused - set(names))
    if unknown:
        raise ArgumentError(f"{name}: unused names {unknown[0]!r}, and the parameters are {', '.join(names)}")


def made_by_step(name: str, made: Any, slots: Collection[str]) -> tuple[Any, dict[str, Any]]:
    """Return what an optimiser's `step` has made; raises ArgumentError unless it is new elements and known slots."""
    is_pair = type(made) is tuple and len(made) == 2 and isinstance(made[1], dict)
    if is_pair and made[1].keys() <= set(slots):
        return made[0], made[1]
    shown = f"the slots {', '.join(map(str, made[1]))}" if is_pair else f"a {type(made).__name__}"
    raise ArgumentError(f"{name}.step returns {shown}, and must return a pair: the parameter's new elements, and a "
                        f"dict of slots ({', '.join(slots) or 'which has none'})")


def by_parameter(name: str, parameters: Sequence[Parameter], gradients: Any) -> list[Any]:
    """Return the leaves of a tree of gradients in the order of the parameters."""
    tree, names = tree_of(gradients, ""), [p.name for p in parameters]
    given = dict(zip(map(dotted, tree.paths), tree.leaves, strict=True))
    if given.keys() == set(names):
        leaves = [given[name] for name in names]
    elif isinstance(gradients, list | tuple) and len(tree.leaves) == len(gradients) == len(names):
        leaves = list(tree.leaves)
    else:
        raise ArgumentError(f"{name}.apply: {len(tree.leaves)} gradients ({', '.join(list(given)[:5])}) for "
                            f"{len(names)} parameters ({', '.join(names[:5])})")
    for p, g in zip(parameters, leaves, strict=True):
        if np.shape(g) != p.shape:
            raise ShapeError(f"{name}.apply: the gradient of {p.name} has the shape {np.shape(g)}, and {p.shape} is "
                             "needed")
    return leaves
