"""erf in float32: below 0.9 a polynomial, above 1 - 2**-(2 x + x Q(x)), as on the CPU."""
from __future__ import annotations

from jitfuse.backends.llvm.math import coefficients as c
from jitfuse.backends.wgsl.library.polynomial import horner


def text() -> str:
    """Return the functions."""
    return f"""
fn jf_erf(x: f32) -> f32 {{
  if (jf_is_nan(x)) {{ return x; }}
  let size = min(jf_abs(x), 3.93);
  if (size < 0.9) {{
    let t = size * size;
    return jf_copysign(size + size * {horner("t", c.ERF_SINGLE)}, x);
  }}
  let whole = fence(-2.0 * size);
  let tail = size * {horner("size", c.ERFC_SINGLE)};
  let k = jf_nearest(fence(whole - tail));
  let r = fence(whole - k) - tail;
  let power = bitcast<f32>((i32(k) + 127) << 23u);
  return jf_copysign(fence(1.0 - power) - power * jf_exp2_tail(r), x);
}}
"""
