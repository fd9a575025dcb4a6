"""What control flow says of functions that return something else than is due: the user's words and line."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

X = np.arange(4.0)
WRONG: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: jf.scan(lambda c, v: None, 0.0, x), r"f has to return a pair \(carry, y\), and has returned None"),
    (lambda x: jf.scan(lambda c, v: c + v, 0.0, x), r"has returned one array, float64\[\]"),
    (lambda x: jf.scan(lambda c, v: x, 0.0, x), r"has returned one array, float64\[4\]"),
    (lambda x: jf.scan(lambda c, v: (c, v, v), 0.0, x), "has returned a tuple of 3"),
    (lambda x: jf.scan(lambda c, v: {"a": c}, 0.0, x), "has returned a dict"),
    (lambda x: jf.while_loop(lambda c: None, lambda c: c + 1, x), "while_loop decides by|no array or number"),
    (lambda x: jf.while_loop(lambda c: "a", lambda c: c + 1, x), "while_loop decides by|no array or number"),
]


@pytest.mark.parametrize("k", range(len(WRONG)))
def test_the_users_words_and_line(k: int) -> None:
    f, text = WRONG[k]
    for function in (f, jf.fuse(f)):
        with pytest.raises(jf.JitfuseError, match=text) as caught:
            function(X)
        assert "TracedTensor" not in str(caught.value)
        assert f"test_control_messages.py:{f.__code__.co_firstlineno}" in str(caught.value)
