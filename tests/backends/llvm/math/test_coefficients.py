"""The committed coefficients are those that the committed script fits."""
from __future__ import annotations

import contextlib
import importlib.util
import io
from pathlib import Path

import pytest

from jitfuse.backends.llvm.math import coefficients
from jitfuse.backends.llvm.math.reduction import TWO_OVER_PI_WORDS

ROOT = Path(__file__).parents[4]


@pytest.mark.full
def test_script_writes_the_coefficients():
    spec = importlib.util.spec_from_file_location("fit_polynomials", ROOT / "benchmarks/fit_polynomials.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        script.main()
    assert written.getvalue() == Path(coefficients.__file__).read_text()


def test_two_over_pi_is_exact() -> None:
    """By Machin's formula pi = 16 atan(1/5) - 4 atan(1/239), in integers."""
    bits = 64 * (len(TWO_OVER_PI_WORDS) - 1)
    one = 1 << (bits + 128)

    def arctangent_of_inverse(n: int) -> int:
        total, power, k = 0, one // n, 0
        while power:
            total += (-1) ** k * (power // (2 * k + 1))
            power //= n * n
            k += 1
        return total

    pi = 16 * arctangent_of_inverse(5) - 4 * arctangent_of_inverse(239)
    joined = 0
    for word in TWO_OVER_PI_WORDS:
        joined = joined << 64 | word
    assert joined == (2 * one << bits) // pi
