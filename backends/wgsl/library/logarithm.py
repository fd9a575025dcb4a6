"""log, log1p, log2 and log10 in float32 alone.

x = 2**k m with m in [sqrt(1/2), sqrt(2)); k ln 2, to 15 bits, and m - 1 add up to a head and an exact remainder.
"""
from __future__ import annotations

from jitfuse.backends.llvm.math import coefficients as c
from jitfuse.backends.wgsl.library.polynomial import horner


def text() -> str:
    """Return the functions."""
    return f"""
fn jf_log_unusual(x: f32) -> f32 {{
  if (jf_is_nan(x)) {{ return x; }}
  if (jf_abs(x) == 0.0) {{ return literal(0xff800000u); }}
  if (x < 0.0) {{ return literal(0x7fc00000u); }}
  return x;
}}
fn jf_log_usual(x: f32) -> bool {{ return !jf_is_nan(x) && x > 0.0 && jf_is_finite(x); }}
fn jf_log_parts(x: f32) -> vec2<f32> {{
  let small = bitcast<u32>(x) < 0x800000u;
  let y = select(x, x * 8388608.0, small);
  let above = bitcast<i32>(y) - 0x3f3504f3;
  let k = f32(above >> 23u) - select(0.0, 23.0, small);
  return vec2<f32>(k, bitcast<f32>((above & 0x7fffff) + 0x3f3504f3));
}}
fn jf_log_sum(k: f32, f: f32, f_low: f32) -> f32 {{
  let whole = k * 0.693145751953125;
  let head = fence(whole + f);
  let low = fence(f - fence(head - whole)) + f_low;
  return head + (f * f * {horner("f", c.LOG1P_SINGLE)} + (k * 1.428606765330187e-6 + low));
}}
fn jf_log(x: f32) -> f32 {{
  if (!jf_log_usual(x)) {{ return jf_log_unusual(x); }}
  let parts = jf_log_parts(x);
  return jf_log_sum(parts.x, fence(parts.y - 1.0), 0.0);
}}
fn jf_log1p(x: f32) -> f32 {{
  if (jf_abs(x) < 1e-9) {{ return x; }}
  let u = fence(1.0 + x);
  if (!jf_log_usual(u)) {{ return jf_log_unusual(u); }}
  let parts = jf_log_parts(u);
  if (parts.x == 0.0) {{ return jf_log_sum(0.0, x, 0.0); }}
  let v = fence(u - 1.0);
  let lost = fence(1.0 - fence(u - v)) + fence(x - v);
  let scale = bitcast<f32>(max(127 - i32(parts.x), 0) << 23u);
  return jf_log_sum(parts.x, fence(parts.y - 1.0), lost * scale);
}}
fn jf_log2(x: f32) -> f32 {{
  if (!jf_log_usual(x)) {{ return jf_log_unusual(x); }}
  let parts = jf_log_parts(x);
  let f = fence(parts.y - 1.0);
  let tail = f * f * {horner("f", c.LOG1P_SINGLE)};
  return parts.x + (f * 1.4426950408889634 + tail * 1.4426950408889634);
}}
"""
