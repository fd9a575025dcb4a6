"""Fit the polynomials of jitfuse's math functions and print `backends/llvm/math/coefficients.py`.

Minimax polynomials by the Remez exchange algorithm (Remez 1934; Muller, Elementary Functions, chapter 3),
in 50 decimal digits, weighted for relative error, then rounded to float64. Needs mpmath; takes seconds:

    python benchmarks/fit_polynomials.py > backends/llvm/math/coefficients.py
"""
from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache

import mpmath as m
from mpmath import mp, mpf

mp.dps = 50
Real = Callable[[mpf], mpf]


def evaluate(coefficients: list[mpf], u: mpf) -> mpf:
    """Return the polynomial at u, constant term first."""
    total = mpf(0)
    for c in reversed(coefficients):
        total = total * u + c
    return total


def remez(fn: Real, a: mpf, b: mpf, degree: int, center: mpf, weight: Real) -> tuple[mpf, list[mpf]]:
    """Return (largest weighted error, coefficients in u - center) of the best polynomial on [a, b]."""
    n = degree + 2
    nodes = [(a + b) / 2 - (b - a) / 2 * m.cos(m.pi * i / (n - 1)) for i in range(n)]
    grid = [(a + b) / 2 - (b - a) / 2 * m.cos(m.pi * i / (24 * n)) for i in range(24 * n + 1)]
    target = [(fn(u), weight(u)) for u in grid]
    best: tuple[mpf, list[mpf]] = (m.inf, [])
    for _ in range(12):
        system, right = m.matrix(n, n), m.matrix(n, 1)
        for i, u in enumerate(nodes):
            for j in range(degree + 1):
                system[i, j] = (u - center) ** j
            system[i, degree + 1] = (-1) ** i / weight(u)
            right[i] = fn(u)
        solution = m.lu_solve(system, right)
        c = [solution[j] for j in range(degree + 1)]
        errors = [(evaluate(c, u - center) - y) * w for u, (y, w) in zip(grid, target)]
        best = min(best, (max(map(abs, errors)), c))
        extrema: list[tuple[int, mpf]] = []  # the largest error of each run of one sign
        for i, e in enumerate(errors):
            if not extrema or (extrema[-1][1] > 0) != (e > 0):
                extrema.append((i, e))
            elif abs(e) > abs(extrema[-1][1]):
                extrema[-1] = (i, e)
        while len(extrema) > n:
            extrema.pop(0 if abs(extrema[0][1]) < abs(extrema[-1][1]) else -1)
        if len(extrema) < n or best[0] < abs(solution[degree + 1]) * mpf("1.01"):
            break
        nodes = [grid[i] for i, _ in extrema]
    return best


def at_zero(value: mpf, fn: Real) -> Real:
    """Return fn with its removable singularity at 0 filled in."""
    return lambda u: mpf(value) if abs(u) < 1e-40 else fn(u)


def atanh_tail(terms: int) -> Real:
    """Return (2 atanh(s)/s less its first terms) / s**(2 terms) as a function of t = s*s."""
    return lambda t: evaluate(ATANH[terms:], t)


LN2 = m.log(2)
HALF_LN2 = LN2 / 2 * mpf("1.0001")
FRACTION_LOW, FRACTION_HIGH = m.sqrt(mpf(1) / 2) - mpf("1.00001"), m.sqrt(mpf(2)) - mpf("0.99999")
S_MAX = ((m.sqrt(mpf(2)) - 1) / (m.sqrt(mpf(2)) + 1)) ** 2 * mpf("1.0001")
QUARTER, HALF = (m.pi / 4 * mpf("1.0001")) ** 2, (m.pi / 2 * mpf("1.0001")) ** 2
EIGHTH = (m.sqrt(mpf(2)) - mpf("0.9999")) ** 2
ERF_END, ERF_CENTER = mpf("3.93") ** 2, mpf("7.5")
ERF_SPLIT, ERFC_CENTER, ERFC_END = mpf(1), mpf(1), mpf("5.95")
UPPER_TURN_64, UPPER_TURN_32 = mpf(4), mpf(3)


# Taylor coefficients, more than the 50 digits need
EXP = [1 / m.factorial(k) for k in range(40)]
SINH = [1 / m.factorial(2 * k + 1) for k in range(40)]
COSH = [1 / m.factorial(2 * k) for k in range(40)]
SIN = [(-1) ** k * c for k, c in enumerate(SINH)]
COS = [(-1) ** k * c for k, c in enumerate(COSH)]
ERF = [2 / m.sqrt(m.pi) * (-1) ** k / m.factorial(k) / (2 * k + 1) for k in range(90)]
ATAN = [mpf((-1) ** k) / (2 * k + 1) for k in range(90)]
ATANH = [mpf(2) / (2 * k + 1) for k in range(60)]
ASIN = [m.binomial(2 * k, k) / mpf(4) ** k / (2 * k + 1) for k in range(100)]


def sin_series(t: mpf, first: int) -> mpf:
    """Return the terms of sin(r)/r from r**(2 first) on, over r**(2 first), for t = r*r."""
    return evaluate(SIN[first:], t)


def cos_series(t: mpf, first: int) -> mpf:
    """Return the terms of cos(r) from r**(2 first) on, over r**(2 first), for t = r*r."""
    return evaluate(COS[first:], t)


def exp_series(r: mpf, first: int) -> mpf:
    """Return the terms of exp(r) from r**first on, over r**first."""
    return evaluate(EXP[first:], r)


def sinh_series(t: mpf, first: int) -> mpf:
    """Return the terms of sinh(r)/r from r**(2 first) on, over r**(2 first), for t = r*r."""
    return evaluate(SINH[first:], t)


def cosh_series(t: mpf, first: int) -> mpf:
    """Return the terms of cosh(r) from r**(2 first) on, over r**(2 first), for t = r*r."""
    return evaluate(COSH[first:], t)


def erf_series(t: mpf, first: int) -> mpf:
    """Return the terms of erf(x)/x from x**(2 first) on, over x**(2 first), for t = x*x."""
    return evaluate(ERF[first:], t)


def upper_tail(x: mpf) -> mpf:
    """Return (1 + 2x) exp(x*x) erfc(x), which is nearly constant for x >= 0 (Shepherd and Laframboise, 1981)."""
    return (1 + 2 * x) * m.exp(x * x) * m.erfc(x)


def upper_slope(turn: mpf) -> Real:
    """Return `upper_tail` less its value at `turn`, over u, as a function of u = (x - turn)/(x + turn)."""

    def slope(u: mpf) -> mpf:
        u = u if abs(u) > 1e-18 else mpf("1e-18")
        return (upper_tail(turn * (1 + u) / (1 - u)) - upper_tail(turn)) / u

    return slope


def turned(x: str, turn: mpf) -> mpf:
    """Return (x - turn)/(x + turn)."""
    return (mpf(x) - turn) / (mpf(x) + turn)


def atan_series(t: mpf, first: int) -> mpf:
    """Return the terms of atan(s)/s from s**(2 first) on, over s**(2 first), for t = s*s below 0.2."""
    return evaluate(ATAN[first:], t)


def asin_series(t: mpf, first: int) -> mpf:
    """Return the terms of asin(s)/s from s**(2 first) on, over s**(2 first), for t = s*s up to 1/4."""
    return evaluate(ASIN[first:], t)


def of_root(fn: Real) -> Real:
    """Return fn(s)/s, which is 1 at 0, as a function of t = s*s."""
    return at_zero(mpf(1), lambda t: fn(m.sqrt(t)) / m.sqrt(t))


# name, what it approximates, function, interval, degree, center
FITS: list[tuple[str, str, Real, mpf, mpf, int, mpf]] = [
    ("EXPM1_32", "(exp(r) - 1) / r", lambda r: exp_series(r, 1), -HALF_LN2, HALF_LN2, 6, mpf(0)),
    ("EXP2M1_32", "(2**r - 1) / r", lambda r: LN2 * exp_series(r * LN2, 1), mpf("-0.5001"), mpf("0.5001"), 6,
     mpf(0)),
    ("EXP_SINGLE", "(exp(r) - 1 - r) / (r*r)", lambda r: exp_series(r, 2), -HALF_LN2, HALF_LN2, 4, mpf(0)),
    ("SIN_32", "sin(r) / r in r*r, |r| <= pi/2", lambda t: sin_series(t, 0), mpf(0), HALF, 5, mpf(0)),
    ("LOG1P_32", "log(1 + f) / f", at_zero(mpf(1), lambda f: m.log1p(f) / f), FRACTION_LOW, FRACTION_HIGH, 11,
     mpf(0)),
    ("LOG2_1P_32", "log2(1 + f) / f", at_zero(1 / LN2, lambda f: m.log1p(f) / f / LN2), FRACTION_LOW,
     FRACTION_HIGH, 11, mpf(0)),
    ("LOG2_1P_POWER_32", "log2(1 + f) / f, for power", at_zero(1 / LN2, lambda f: m.log1p(f) / f / LN2),
     FRACTION_LOW, FRACTION_HIGH, 14, mpf(0)),
    ("ERF_32", f"erf(x) / x in x*x - {m.nstr(ERF_CENTER)}, |x| <= 3.93",
     at_zero(2 / m.sqrt(m.pi), lambda t: m.erf(m.sqrt(t)) / m.sqrt(t)), mpf(0), ERF_END, 18, ERF_CENTER),
    ("ERF_SINGLE", "erf(x)/x - 1 in x*x, |x| <= 0.9", lambda t: erf_series(t, 0) - 1, mpf(0), mpf("0.81"), 6, mpf(0)),
    ("ERFC_SINGLE", "-log2(erfc(x))/x - 2, 0.9 <= x <= 3.93", lambda x: -m.log(m.erfc(x), 2) / x - 2, mpf("0.9"),
     mpf("3.93"), 5, mpf(0)),
    ("EXP_64", "(exp(r) - 1 - r) / (r*r)", lambda r: exp_series(r, 2), -HALF_LN2, HALF_LN2, 10, mpf(0)),
    ("SIN_64", "(sin(r) - r) / r**3 in r*r", lambda t: sin_series(t, 1), mpf(0), QUARTER, 6, mpf(0)),
    ("COS_64", "(cos(r) - 1 + r*r/2) / r**4 in r*r", lambda t: cos_series(t, 2), mpf(0), QUARTER, 5, mpf(0)),
    ("EXPM1_SINGLE", "(exp(r) - 1 - r) / (r*r)", lambda r: exp_series(r, 2), -HALF_LN2, HALF_LN2, 5, mpf(0)),
    ("EXP2_SINGLE", "(2**r - 1 - r ln 2) / (r*r)", lambda r: LN2 * LN2 * exp_series(r * LN2, 2), mpf("-0.5001"),
     mpf("0.5001"), 4, mpf(0)),
    ("LOG1P_SINGLE", "(log(1 + f) - f) / (f*f)", at_zero(mpf("-0.5"), lambda f: (m.log1p(f) - f) / (f * f)),
     FRACTION_LOW, FRACTION_HIGH, 9, mpf(0)),
    ("LOG_64", "(2*atanh(s)/s - 2) / t in t = s*s", atanh_tail(1), mpf(0), S_MAX, 7, mpf(0)),
    ("LOG_POWER_64", "(2*atanh(s)/s - 2 - 2/3*t) / (t*t) in t = s*s", atanh_tail(2), mpf(0), S_MAX, 7,
     mpf(0)),
    ("ERF_64", "(erf(x)/x - 2/sqrt(pi)) / (x*x) in x*x, |x| <= 1", lambda t: erf_series(t, 1),
     mpf(0), ERF_SPLIT, 11, mpf(0)),
    ("ERFC_64", f"exp(x*x) * erfc(x) in x - {m.nstr(ERFC_CENTER)}, 1 <= x <= 5.95",
     lambda x: m.exp(x * x) * m.erfc(x), ERF_SPLIT, ERFC_END, 21, ERFC_CENTER),
    ("UPPER_32", "the slope of (1 + 2x) exp(x*x) erfc(x) from x = 3, in (x - 3)/(x + 3), 0 <= x <= 10.2",
     upper_slope(UPPER_TURN_32), mpf(-1), turned("10.2", UPPER_TURN_32), 12, mpf(0)),
    ("UPPER_64", "the slope of (1 + 2x) exp(x*x) erfc(x) from x = 4, in (x - 4)/(x + 4), 1/2 <= x <= 27.4",
     upper_slope(UPPER_TURN_64), turned("0.5", UPPER_TURN_64), turned("27.4", UPPER_TURN_64), 21, mpf(0)),
    ("TAN_32", "tan(r) / r in r*r, |r| <= pi/4", of_root(m.tan), mpf(0), QUARTER, 7, mpf(0)),
    ("ATAN_32", "atan(s) / s in s*s, |s| <= 1", of_root(m.atan), mpf(0), mpf(1), 11, mpf(0)),
    ("ATAN_64", "(atan(s) - s) / s**3 in s*s, |s| <= tan(pi/8)", lambda t: atan_series(t, 1), mpf(0), EIGHTH, 10,
     mpf(0)),
    ("ASIN_32", "asin(s) / s in s*s, |s| <= 1/2", lambda t: asin_series(t, 0), mpf(0), mpf("0.25"), 6, mpf(0)),
    ("ASIN_64", "(asin(s) - s) / s**3 in s*s, |s| <= 1/2", lambda t: asin_series(t, 1), mpf(0), mpf("0.25"), 12,
     mpf(0)),
    ("ATAN_SINGLE", "(atan(s) - s) / s**3 in s*s, |s| <= tan(pi/8)", lambda t: atan_series(t, 1), mpf(0), EIGHTH, 4,
     mpf(0)),
    ("ASIN_SINGLE", "(asin(s) - s) / s**3 in s*s, |s| <= 1/2", lambda t: asin_series(t, 1), mpf(0), mpf("0.25"), 4,
     mpf(0)),
    ("ATANH_SINGLE", "(atanh(s) - s) / s**3 in s*s, |s| <= 0.201", lambda t: atanh_tail(1)(t) / 2, mpf(0),
     mpf("0.0403"), 2, mpf(0)),
    ("SINH_32", "sinh(r) / r in r*r", lambda t: sinh_series(t, 0), mpf(0), HALF_LN2**2, 3, mpf(0)),
    ("COSH_32", "cosh(r) in r*r", lambda t: cosh_series(t, 0), mpf(0), HALF_LN2**2, 3, mpf(0)),
    ("SINH_64", "(sinh(r) - r) / r**3 in r*r", lambda t: sinh_series(t, 1), mpf(0), HALF_LN2**2, 4, mpf(0)),
    ("COSH_64", "(cosh(r) - 1 - r*r/2) / r**4 in r*r", lambda t: cosh_series(t, 2), mpf(0), HALF_LN2**2, 4, mpf(0)),
    ("ATANH_32", "atanh(s) / s in s*s, |s| <= 0.201", lambda t: atanh_tail(0)(t) / 2, mpf(0), mpf("0.0403"), 4, mpf(0)),
    ("ATANH_64", "(atanh(s) - s) / s**3 in s*s, |s| <= 0.201", lambda t: atanh_tail(1)(t) / 2, mpf(0), mpf("0.0403"),
     8, mpf(0)),
]

# relative error by default; erfc is only subtracted from 1, so its absolute error counts; for SINGLE it is the
# error of the function's result
WEIGHTS: dict[str, Real] = {
    "ERFC_64": lambda x: m.exp(-x * x),
    "LOG1P_SINGLE": lambda f: (abs(f) + mpf("1e-3")) / abs(m.log1p(f) / f if f else mpf(1)),
    "ATAN_SINGLE": lambda t: (t + mpf("1e-3")) / atan_series(t, 0),
    "ASIN_SINGLE": lambda t: (t + mpf("1e-3")) / asin_series(t, 0),
    "ATANH_SINGLE": lambda t: (t + mpf("1e-3")) * 2 / atanh_tail(0)(t),
    "EXP2_SINGLE": lambda r: (r * r + mpf("1e-3")) / 2**r,
    "ERF_SINGLE": lambda t: 1 / erf_series(t, 0),
    "ERFC_SINGLE": lambda x: LN2 * x * m.erfc(x) / m.erf(x),
    "UPPER_32": lambda u: abs(u) + mpf("1e-3"),
    "UPPER_64": lambda u: abs(u) + mpf("1e-3"),
    "EXP_SINGLE": lambda r: (r * r + mpf("1e-3")) / m.exp(r),
    "EXPM1_SINGLE": lambda r: (r * r + mpf("1e-3")) / m.exp(r),
}


def to_single(value: mpf) -> float:
    """Return the nearest float32 (to the nearest float64)."""
    single: float = struct.unpack("<f", struct.pack("<f", float(value)))[0]
    return single


def main() -> None:
    """Print the module of coefficients."""
    print('"""Minimax coefficients, constant term first; written by benchmarks/fit_polynomials.py.')
    print('\nThe suffix is the width of the result: those for float32 are evaluated in float64 all the same, but for')
    print('those called SINGLE, which are float32.')
    print('"""\nfrom __future__ import annotations')
    for name, what, plain, a, b, degree, center in FITS:
        fn = cache(plain)
        weight = WEIGHTS.get(name, lambda u, fn=fn: 1 / abs(fn(u)))  # type: ignore[misc]
        error, c = remez(fn, a, b, degree, center, weight)
        print(f"\n# {what}; weighted error {m.nstr(error, 2)}")
        if center:
            print(f"{name}_CENTER = {float(center)!r}")
        print(f"{name} = (")
        for value in c:
            print(f"    {(to_single if name.endswith('SINGLE') else float)(value)!r},")
        print(")")


if __name__ == "__main__":
    main()
