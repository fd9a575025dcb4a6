"""What a fused function knows of the generators that its calls move on, and when others may draw from them.

Does not own their states while a call goes on (`jitfuse.drawing`).
"""
from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from jitfuse.backends.llvm.runtime.callable import NativeCallable
from jitfuse.drawing import Drawing
from jitfuse.errors import EverybodysDrawError
from jitfuse.frameworks import loans, tensor_ids
from jitfuse.ir.generators import EVERYBODYS


class Draws(NativeCallable):
    """A function whose calls may move generators on."""

    _drawing = Drawing()
    """The generators that its calls move on, whose states are arrays in them."""
    _draws = False
    """Whether its calls draw from the generator behind `np.random.seed`, so that a twin answers them."""
    _home: weakref.ref[Any] | None = None
    """The function that it is a twin of."""

    def _hold_generators(self, looked: bool = False) -> None:
        """Have nobody else draw, before compiled code moves generators on: see `jitfuse.drawing.Loans`."""
        lent = loans() if self._drawing != Drawing() else None
        if lent is not None:
            lent.hold(looked)

    def _release_generators(self) -> None:
        """Let others draw, before code of the user's runs or a lock is waited for."""
        lent = loans() if self._drawing != Drawing() else None
        if lent is not None:
            lent.release()

    def _lent(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> frozenset[int]:
        """Return the ids of arrays that are states of generators."""
        places, everybodys = self._drawing
        given = tensor_ids(places, args, kwargs) if places else frozenset()
        return given | {id(EVERYBODYS.words)} if everybodys else given


def with_everybodys(method: Callable[..., Any]) -> Callable[..., Any]:
    """Have a method begin anew where a trace finds that calls draw from the generator behind `np.random.seed`."""
    @functools.wraps(method)
    def call(self: Draws, *args: Any, **kwargs: Any) -> Any:
        is_known = self._home is not None or self._draws
        try:
            return method(self, *args, **kwargs)
        except EverybodysDrawError:
            if is_known:
                raise
            self._draws = True
        return method(self, *args, **kwargs)

    return call
