"""exp, exp2, expm1 and the hyperbolic tangent in float32 alone.

x = k ln 2 + r with ln 2 in two parts of which the first, of 15 bits, times k is exact; polynomials as on the CPU.
Adding 1.5 * 2**23 rounds to an integer. Scaling by 2**k takes two factors, so that denormals and infinity come out.
"""
from __future__ import annotations

from jitfuse.backends.llvm.math import coefficients as c
from jitfuse.backends.wgsl.library.polynomial import horner

_ROUNDER = "12582912.0"


def text() -> str:
    """Return the functions."""
    return f"""
fn jf_nearest(x: f32) -> f32 {{ return fence(fence(x + {_ROUNDER}) - {_ROUNDER}); }}
fn jf_exp_rest(x: f32, k: f32) -> f32 {{
  return fence(x - k * 0.693145751953125) - k * 1.428606765330187e-6;
}}
fn jf_exp_tail(r: f32) -> f32 {{ return r + r * r * {horner("r", c.EXPM1_SINGLE)}; }}
fn jf_exp2_tail(r: f32) -> f32 {{ return r * 0.6931471824645996 + r * r * {horner("r", c.EXP2_SINGLE)}; }}
fn jf_scaled(p: f32, k: i32) -> f32 {{
  let first = k >> 1u;
  let second = k - first;
  return fence(p * bitcast<f32>((first + 127) << 23u)) * bitcast<f32>((second + 127) << 23u);
}}
fn jf_exp(x: f32) -> f32 {{
  if (jf_is_nan(x)) {{ return x; }}
  let bounded = clamp(x, -104.0, 89.0);
  let k = jf_nearest(bounded * 1.4426950408889634);
  return jf_scaled(fence(1.0 + jf_exp_tail(jf_exp_rest(bounded, k))), i32(k));
}}
fn jf_exp2(x: f32) -> f32 {{
  if (jf_is_nan(x)) {{ return x; }}
  let bounded = clamp(x, -151.0, 129.0);
  let k = jf_nearest(bounded);
  return jf_scaled(fence(1.0 + jf_exp2_tail(bounded - k)), i32(k));
}}
fn jf_expm1(x: f32) -> f32 {{
  if (jf_is_nan(x) || jf_abs(x) < 1e-9) {{ return x; }}
  let bounded = clamp(x, -18.0, 89.0);
  let k = jf_nearest(bounded * 1.4426950408889634);
  let tail = jf_exp_tail(jf_exp_rest(bounded, k));
  if (k == 0.0) {{ return tail; }}
  let half = bitcast<f32>((i32(k) + 126) << 23u);
  return fence(fence(half - 0.5) + half * tail) * 2.0;
}}
fn jf_tanh(x: f32) -> f32 {{
  if (jf_is_nan(x) || jf_abs(x) < 1e-4) {{ return x; }}
  let e = jf_expm1(2.0 * min(jf_abs(x), 10.0));
  return jf_copysign(e / (e + 2.0), x);
}}
"""
