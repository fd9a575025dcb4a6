"""power in float32: 2**(y log2 x), the logarithm in two words, and the special cases of C99 (annex F.9.4.4).

log2 m = 2/ln 2 artanh(s), s = (m - 1)/(m + 1); products in two words are Dekker's, of halves of 12 bits.
"""
from __future__ import annotations

from jitfuse.backends.wgsl.library.polynomial import horner

# artanh(s)/s - 1 over s**2, |s| <= 0.1716: the series, whose next term is below 2**-33
_ARTANH = (1 / 3, 1 / 5, 1 / 7, 1 / 9, 1 / 11)


def text() -> str:
    """Return the functions."""
    return f"""
fn jf_two_product(a: f32, b: f32) -> vec2<f32> {{
  let ah = bitcast<f32>(bitcast<u32>(a) & 0xfffff000u);
  let bh = bitcast<f32>(bitcast<u32>(b) & 0xfffff000u);
  let al = fence(a - ah);
  let bl = fence(b - bh);
  let p = fence(a * b);
  let e = fence(fence(fence(fence(ah * bh) - p) + fence(ah * bl)) + fence(al * bh)) + al * bl;
  return vec2<f32>(p, fence(e));
}}
fn jf_fast_two_sum(a: f32, b: f32) -> vec2<f32> {{
  let s = fence(a + b);
  return vec2<f32>(s, fence(b - fence(s - a)));
}}
fn jf_log2_pair(x: f32) -> vec2<f32> {{
  let parts = jf_log_parts(x);
  let f = fence(parts.y - 1.0);
  let d = fence(parts.y + 1.0);
  let d_low = fence(parts.y - fence(d - 1.0));
  let s = fence(f / d);
  let back = jf_two_product(s, d);
  let s_low = fence(fence(fence(f - back.x) - back.y) - s * d_low) / d;
  let z = s * s;
  let tail = s * z * {horner("z", _ARTANH)} + s_low;
  let sum = jf_fast_two_sum(s, tail);
  let scaled = jf_two_product(sum.x, 2.885390043258667);
  let low = scaled.y + (sum.y * 2.885390043258667 + sum.x * 3.851926022591101e-08);
  let whole = jf_fast_two_sum(parts.x, scaled.x);
  if (parts.x == 0.0) {{ return jf_fast_two_sum(scaled.x, low); }}
  return jf_fast_two_sum(whole.x, fence(whole.y + low));
}}
fn jf_power_positive(x: f32, y: f32) -> f32 {{
  let l = jf_log2_pair(x);
  let bounded = clamp(y, -1.0e9, 1.0e9);
  let p = jf_two_product(l.x, bounded);
  let whole = clamp(p.x, -152.0, 130.0);
  let low = select(0.0, p.y + l.y * bounded, whole == p.x);
  let k = jf_nearest(whole);
  let r = fence(fence(whole - k) + low);
  return jf_scaled(fence(1.0 + jf_exp2_tail(r)), i32(k));
}}
fn jf_power(x: f32, y: f32) -> f32 {{
  if (x == 1.0 || jf_abs(y) == 0.0) {{ return 1.0; }}
  if (jf_is_nan(x)) {{ return x; }}
  if (jf_is_nan(y)) {{ return y; }}
  let size = jf_abs(x);
  let infinite = jf_is_inf(y);
  let whole = infinite || jf_abs(y) >= 8388608.0 || trunc(y) == y;
  let half = 0.5 * y;
  let odd = whole && !infinite && jf_abs(y) < 16777216.0 && trunc(half) != half;
  let below = (bitcast<u32>(x) & 0x80000000u) != 0u;
  var result = 0.0;
  if (size == 0.0 || jf_is_inf(x) || infinite) {{
    let grows = (size > 1.0) != (y < 0.0);
    result = select(0.0, literal(0x7f800000u), grows && size != 1.0);
    if (size == 1.0) {{ result = 1.0; }}
  }} else {{
    if (below && !whole) {{ return literal(0x7fc00000u); }}
    result = jf_power_positive(size, y);
  }}
  return select(result, jf_negative(result), below && odd);
}}
"""
