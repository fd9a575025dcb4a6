"""The tracer's side of the view of Python: which stand-in the traced function sees for a real value."""
from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitfuse.dtypes import SUPPORTED
from jitfuse.errors import ArgumentError
from jitfuse.tracing.device_array import DeviceArray, HostArray, seen
from jitfuse.tracing.mode import ModeFlag
from jitfuse.tracing.recorder import Feed, Recorder
from jitfuse.tracing.substitutes import substitute
from jitfuse.tracing.traced import TracedTensor, from_feed
from jitfuse.tracing.view.chain import Chain

_STAND_INS: Final = frozenset({TracedTensor, ModeFlag})


class TracingHooks:
    """Answers `jitfuse.tracing.view.hooks.Hooks` for one run: arrays and numbers become feeds."""

    def __init__(self, run: Recorder) -> None:
        self.run = run

    def is_array(self, value: Any) -> bool:
        """Tell whether a value is an array."""
        return isinstance(value, np.ndarray | DeviceArray | HostArray)

    def is_traced(self, value: Any) -> bool:
        """Tell whether a value is a traced tensor or the training flag."""
        return type(value) in _STAND_INS

    def array(self, chain: Chain, value: Any) -> Any:
        """Return an array's traced tensor; raises ArgumentError for subclasses, DTypeError by dtype."""
        value = seen(value)
        if type(value) is not np.ndarray:
            raise ArgumentError(
                f"{chain} is a {type(value).__name__}, whose operators differ from np.ndarray's; pass "
                f"np.asarray({chain})"
            )
        return self._tensor(self.run.session.array_feed(chain, str(chain), value))

    def number(self, chain: Chain, value: Any) -> Any:
        """Return the traced tensor of an int, float or complex number."""
        return self._tensor(self.run.session.scalar_feed(chain, str(chain), value))

    def numpy_scalar(self, chain: Chain, value: Any) -> Any:
        """Return the traced tensor of a NumPy scalar; raises DTypeError for dtypes that are not supported."""
        if value.dtype.name not in SUPPORTED and value.dtype.kind not in "biufc":
            return value
        return self._tensor(self.run.session.scalar_feed(chain, str(chain), value))

    def _tensor(self, feed: Feed) -> TracedTensor:
        tensor: TracedTensor | None = self.run.feed_tensors.get(feed.id)
        if tensor is None:
            tensor = self.run.feed_tensors[feed.id] = from_feed(self.run, feed)
        return tensor

    def substitute(self, value: Any) -> Any | None:
        """Return what takes the place of a NumPy creation function, a random generator or a clock."""
        return substitute(value)

    def concrete(self, value: Any) -> Any:
        """Return the value of a traced number, which becomes a guard; raises TracedValueError for arrays."""
        return bool(value) if type(value) is ModeFlag else value._look("the use of its value")

    def stored(self, place: str, value: Any) -> Any:
        """Return what is kept in real state: a Python scalar's value; other traced values die with the trace."""
        if type(value) is ModeFlag:
            return bool(value)
        return value._look("storing it") if value.weak else value
