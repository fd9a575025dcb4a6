"""Arithmetic of floats with NumPy's results: NaN by bits, signs of zeros, exact remainders.

fmod is long division of significands in integers, as many bits a step as the width leaves free; the sign rules of
floor division are those of npy_divmod. One template makes the functions of float32 and, named ``_64``, of float64.
"""
from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_TEMPLATE: Final = """
fn jf_is_nan@(x: FLOAT) -> bool { return (bitcast<BITS>(x) & SIZE) > INFINITE; }
fn jf_is_inf@(x: FLOAT) -> bool { return (bitcast<BITS>(x) & SIZE) == INFINITE; }
fn jf_is_finite@(x: FLOAT) -> bool { return (bitcast<BITS>(x) & SIZE) < INFINITE; }
fn jf_negative@(x: FLOAT) -> FLOAT { return bitcast<FLOAT>(bitcast<BITS>(x) ^ SIGN); }
fn jf_abs@(x: FLOAT) -> FLOAT { return bitcast<FLOAT>(bitcast<BITS>(x) & SIZE); }
fn jf_copysign@(x: FLOAT, s: FLOAT) -> FLOAT {
  return bitcast<FLOAT>((bitcast<BITS>(x) & SIZE) | (bitcast<BITS>(s) & SIGN));
}
fn jf_less@(a: FLOAT, b: FLOAT) -> bool { return !jf_is_nan@(a) && !jf_is_nan@(b) && a < b; }
fn jf_less_equal@(a: FLOAT, b: FLOAT) -> bool { return !jf_is_nan@(a) && !jf_is_nan@(b) && a <= b; }
fn jf_equal@(a: FLOAT, b: FLOAT) -> bool { return !jf_is_nan@(a) && !jf_is_nan@(b) && a == b; }
fn jf_minimum@(a: FLOAT, b: FLOAT) -> FLOAT {
  if (jf_is_nan@(a) || jf_less@(a, b)) { return a; }
  return b;
}
fn jf_maximum@(a: FLOAT, b: FLOAT) -> FLOAT {
  if (jf_is_nan@(a) || jf_less@(b, a)) { return a; }
  return b;
}
fn jf_fmin@(a: FLOAT, b: FLOAT) -> FLOAT {
  if (jf_is_nan@(b) || jf_less@(a, b)) { return a; }
  return b;
}
fn jf_fmax@(a: FLOAT, b: FLOAT) -> FLOAT {
  if (jf_is_nan@(b) || jf_less@(b, a)) { return a; }
  return b;
}
fn jf_signbit@(x: FLOAT) -> bool { return (bitcast<BITS>(x) & SIGN) != NONE; }
fn jf_heaviside@(x: FLOAT, at_zero: FLOAT) -> FLOAT {
  if (jf_is_nan@(x)) { return x; }
  if (x > ZERO) { return ONE; }
  if (x == ZERO) { return at_zero; }
  return PLUS_ZERO;
}
fn jf_lowest@(a: FLOAT, b: FLOAT) -> FLOAT {
  if (jf_is_nan@(a) || jf_less@(a, b)) { return a; }
  if (jf_is_nan@(b) || jf_less@(b, a)) { return b; }
  return bitcast<FLOAT>(bitcast<BITS>(a) | (bitcast<BITS>(b) & SIGN));
}
fn jf_highest@(a: FLOAT, b: FLOAT) -> FLOAT {
  if (jf_is_nan@(a) || jf_less@(b, a)) { return a; }
  if (jf_is_nan@(b) || jf_less@(a, b)) { return b; }
  return bitcast<FLOAT>(bitcast<BITS>(a) & (bitcast<BITS>(b) | SIZE));
}
fn jf_sign@(x: FLOAT) -> FLOAT {
  if (jf_is_nan@(x)) { return x; }
  if (x > ZERO) { return ONE; }
  if (x < ZERO) { return -ONE; }
  return PLUS_ZERO;
}
fn jf_floor@(x: FLOAT) -> FLOAT { return jf_copysign@(floor(x), x); }
fn jf_ceil@(x: FLOAT) -> FLOAT { return jf_copysign@(ceil(x), x); }
fn jf_trunc@(x: FLOAT) -> FLOAT { return jf_copysign@(trunc(x), x); }
fn jf_rint@(x: FLOAT) -> FLOAT { return jf_copysign@(round(x), x); }
fn jf_fmod@(x: FLOAT, y: FLOAT) -> FLOAT {
  let a = bitcast<BITS>(x) & SIZE;
  let b = bitcast<BITS>(y) & SIZE;
  if (a >= INFINITE || b > INFINITE || b == NONE) { return NAN; }
  if (a < b) { return x; }
  let ex = max(a >> PLACE, NONE + 1);
  let ey = max(b >> PLACE, NONE + 1);
  let my = (b & FRACTION) | select(NONE, FRACTION + 1, b > FRACTION);
  var r = ((a & FRACTION) | select(NONE, FRACTION + 1, a > FRACTION)) % my;
  var gap = u32(ex - ey);
  while (gap > 0u) {
    let step = min(gap, FREEu);
    r = (r << step) % my;
    gap -= step;
  }
  return jf_copysign@((FLOAT(r) * EPSILON) * bitcast<FLOAT>(ey << PLACE), x);
}
fn jf_turned@(m: FLOAT, y: FLOAT) -> bool { return m != ZERO && !jf_is_nan@(m) && ((m < ZERO) != (y < ZERO)); }
fn jf_remainder@(x: FLOAT, y: FLOAT) -> FLOAT {
  let m = jf_fmod@(x, y);
  if (jf_turned@(m, y)) { return fence@(m + y); }
  if (jf_is_nan@(m) || m != ZERO) { return m; }
  return jf_copysign@(m, y);
}
fn jf_floor_divide@(x: FLOAT, y: FLOAT) -> FLOAT {
  let plain = fence@(x / apart@(y));
  if (jf_abs@(y) == ZERO) { return plain; }
  let m = jf_fmod@(x, y);
  var quotient = fence@(fence@(x - apart@(m)) / apart@(y));
  if (jf_turned@(m, y)) { quotient = fence@(quotient - ONE); }
  if (jf_is_nan@(quotient)) { return quotient; }
  if (quotient == ZERO) { return jf_copysign@(quotient, plain); }
  var whole = jf_floor@(quotient);
  if (fence@(quotient - whole) > HALF) { whole = fence@(whole + ONE); }
  return whole;
}
"""

_SINGLE: Final = {
    "@": "", "FLOAT": "f32", "BITS": "u32", "SIZE": "0x7fffffffu", "SIGN": "0x80000000u", "INFINITE": "0x7f800000u",
    "FRACTION": "0x7fffffu", "NONE": "0u", "PLACE": "23u", "FREE": "8", "EPSILON": "1.1920928955078125e-7",
    "ZERO": "0.0", "ONE": "1.0", "HALF": "0.5", "PLUS_ZERO": "literal(0u)", "NAN": "literal(0x7fc00000u)",
}
_DOUBLE: Final = {
    "@": "_64", "FLOAT": "f64", "BITS": "u64", "SIZE": "0x7ffffffffffffffflu", "SIGN": "0x8000000000000000lu",
    "INFINITE": "0x7ff0000000000000lu", "FRACTION": "0xffffffffffffflu", "NONE": "0lu", "PLACE": "52u", "FREE": "11",
    "EPSILON": "2.220446049250313e-16lf", "ZERO": "0.0lf", "ONE": "1.0lf", "HALF": "0.5lf",
    "PLUS_ZERO": "literal_64(0u, 0u)", "NAN": "literal_64(0u, 0x7ff80000u)",
}


def _made(words: Mapping[str, str]) -> str:
    longest_first = sorted(words, key=len, reverse=True)
    return re.sub("|".join(longest_first), lambda found: words[found[0]], _TEMPLATE)


TEXT: Final = _made(_SINGLE) + _made(_DOUBLE)
