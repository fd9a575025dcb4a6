"""The errors of einops' functions: what they are, and how a pattern is shown with the place of a fault."""
from __future__ import annotations

from collections.abc import Mapping

from jitfuse.axes.faults import Place
from jitfuse.axes.notation import Notation
from jitfuse.base.records import NamedTuple
from jitfuse.errors import AxesError
from jitfuse.tracing.record.source import user_line


class EinopsError(AxesError, RuntimeError):
    """A pattern that is written wrongly, or does not fit its arrays: an AxesError, and a RuntimeError as einops' own.

    The text begins with the reason; `code`, `reason`, `written`, `sizes` and `help` are as AxesError has them.

    Example:
        >>> from jitfuse import einops
        >>> einops.rearrange(np.ones((2, 3)), "a b -> b")
        Traceback (most recent call last):
        jitfuse.einops.errors.EinopsError: a is on the left alone, ...
    """

    def __str__(self) -> str:
        return super().__str__().removeprefix(f"{self.code}: ")


class UnsupportedPatternError(EinopsError, NotImplementedError):
    """A pattern or a dtype that a function does not take, where einops raises NotImplementedError."""


class Writing(NamedTuple):
    """A call as it is shown: the text before the pattern, the pattern, the options behind it."""

    function: str
    pattern: str
    options: tuple[tuple[str, str], ...] = ()
    """Places of options, and their text."""
    before: str = "..."
    """The arguments before the pattern: arrays are not shown."""

    @property
    def start(self) -> int:
        """Where the pattern begins in the text."""
        return len(f"{self.function}({self.before}, '")

    def notation(self, ranges: Mapping[Place, tuple[int, int]]) -> Notation:
        """Return the text with the ranges of places, which are given as those of the pattern."""
        text = f"{self.function}({self.before}, '{self.pattern}'"
        found = {place: (a + self.start, b + self.start) for place, (a, b) in ranges.items()}
        for name, option in self.options:
            found[Place(name)] = len(text) + 2, len(text) + 2 + len(option)
            text += f", {option}"
        return Notation(text + ")", found)

    def error(
        self, code: str, reason: str, at: tuple[int, int] | str | None = None, *, help: str,
        kind: type[EinopsError] = EinopsError,
    ) -> EinopsError:
        """Return the error for a range of the pattern, or for an option."""
        place = Place(at) if isinstance(at, str) else Place("pattern")
        marked = self.notation({place: at} if isinstance(at, tuple) else {}).marked(place)
        return kind(code, f"{reason}, at {user_line()}", written=marked, help=help)
