"""Integer division and shifts with NumPy's results: division by 0 gives 0, no shift is undefined.

-2**31 by -1 wraps around; a shift past the width gives 0, or the sign where bits come from it.
"""
from __future__ import annotations

from typing import Final

_SIGNED: Final = """
fn jf_floor_divide_INT(a: INT, b: INT) -> INT {
  if (b == ZERO) { return ZERO; }
  if (b == -ONE) { return ZERO - a; }
  let q = a / b;
  let r = a - q * b;
  return q - select(ZERO, ONE, r != ZERO && ((r < ZERO) != (b < ZERO)));
}
fn jf_remainder_INT(a: INT, b: INT) -> INT {
  if (b == ZERO || b == -ONE) { return ZERO; }
  let r = a % b;
  return r + select(ZERO, b, r != ZERO && ((r < ZERO) != (b < ZERO)));
}
fn jf_sign_INT(a: INT) -> INT { return select(select(ZERO, ONE, a > ZERO), -ONE, a < ZERO); }
fn jf_abs_INT(a: INT) -> INT { return select(a, ZERO - a, a < ZERO); }
fn jf_shift_right_INT(a: INT, n: INT, width: u32) -> INT {
  let far = n < ZERO || n >= INT(width);
  return a >> select(u32(n), width - 1u, far);
}
fn jf_shift_left_INT(a: INT, n: INT, width: u32) -> INT {
  let far = n < ZERO || n >= INT(width);
  return select(a << select(u32(n), 0u, far), ZERO, far);
}
"""
_UNSIGNED: Final = """
fn jf_floor_divide_INT(a: INT, b: INT) -> INT { if (b == ZERO) { return ZERO; } return a / b; }
fn jf_remainder_INT(a: INT, b: INT) -> INT { if (b == ZERO) { return ZERO; } return a % b; }
fn jf_sign_INT(a: INT) -> INT { return select(ZERO, ONE, a != ZERO); }
fn jf_shift_right_INT(a: INT, n: INT, width: u32) -> INT {
  let far = n >= INT(width);
  return select(a >> select(u32(n), 0u, far), ZERO, far);
}
fn jf_shift_left_INT(a: INT, n: INT, width: u32) -> INT {
  let far = n >= INT(width);
  return select(a << select(u32(n), 0u, far), ZERO, far);
}
"""


def _made(text: str, type_: str, zero: str, one: str) -> str:
    return text.replace("INT", type_).replace("ZERO", zero).replace("ONE", one)


TEXT: Final = "".join((
    _made(_SIGNED, "i32", "0i", "1i"), _made(_SIGNED, "i64", "0li", "1li"),
    _made(_UNSIGNED, "u32", "0u", "1u"), _made(_UNSIGNED, "u64", "0lu", "1lu"),
))
