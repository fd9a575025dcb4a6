"""What the tests of passes share: traced programs with their feeds, and running them in the interpreter."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from oracle import EXACT, same_numbers

from jitfuse import random as jf_random
from jitfuse.backends.interpreter.runner import ProgramRunner
from jitfuse.ir.program import FusedProgram
from jitfuse.tracing.tracer import trace


class Traced:
    """A traced function with the arguments of its trace."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], training: bool = False) -> None:
        made = trace(
            function, args, {}, training=training, declares_training=False, static_argnames=frozenset(),
            schedule_method="slack",
        )
        self.program = made.program
        self.training = training
        self.feeds = {
            feed: jf_random.state().copy() if source.kind == "state" else source.source.resolve(args, {})
            for feed, source in made.feeds.items()
        }

    def run(self, program: FusedProgram) -> dict[Any, Any]:
        """Return everything that a program of this trace delivers."""
        feeds = {i: self.feeds[i] for i in program.feeds}
        result = ProgramRunner(program)(feeds, training=self.training)
        return {**result.outputs, **result.state, **result.writes}


@pytest.fixture(name="traced")
def _traced() -> Callable[..., Traced]:
    return lambda function, *args, training=False: Traced(function, args, training)


def assert_same(actual: dict[Any, Any], expected: dict[Any, Any]) -> None:
    """Compare what two programs deliver, bit by bit; NaN is NaN."""
    assert actual.keys() == expected.keys()
    for key, e in expected.items():
        same_numbers(actual[key], e, EXACT, str(key))


@pytest.fixture(name="assert_same")
def _assert_same() -> Callable[..., None]:
    return assert_same
