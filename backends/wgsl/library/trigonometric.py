"""sin, cos and tan in float32 alone.

Reduction modulo pi/2: up to 1600 by subtracting multiples of pi/2 in four parts of 12 bits, which are exact (Cody
and Waite, 1980); beyond, by Payne and Hanek's method (1983) in 32-bit integers. Polynomials on [-pi/4, pi/4] are
those of Cephes (Moshier, 1989), with the low word of the argument put in.
"""
from __future__ import annotations

from typing import Final

TEXT: Final = """
fn jf_turns(x: f32) -> vec3<f32> {
  let k = fence(fence(x * 0.6366197723675814 + 12582912.0) - 12582912.0);
  let head = fence(fence(x - k * 1.5703125) - k * 0.0004837512969970703);
  let third = k * 7.54953362047672e-8;
  let r = fence(head - third);
  let low = fence(fence(head - r) - third) - k * 2.5633440682570896e-12;
  let sum = fence(r + low);
  return vec3<f32>(sum, fence(low - fence(sum - r)), k);
}
fn jf_two_over_pi(i: u32) -> u32 {
  switch (i) {
    case 1u: { return 0xa2f9836eu; }
    case 2u: { return 0x4e441529u; }
    case 3u: { return 0xfc2757d1u; }
    case 4u: { return 0xf534ddc0u; }
    case 5u: { return 0xdb629599u; }
    case 6u: { return 0x3c439041u; }
    case 7u: { return 0xfe5163abu; }
    default: { return 0u; }
  }
}
fn jf_window(start: u32) -> u32 {
  let i = start >> 5u;
  let n = start & 31u;
  if (n == 0u) { return jf_two_over_pi(i); }
  return (jf_two_over_pi(i) << n) | (jf_two_over_pi(i + 1u) >> (32u - n));
}
fn jf_large_turns(x: f32) -> vec3<f32> {
  let bits = bitcast<u32>(x) & 0x7fffffffu;
  let m = (bits & 0x7fffffu) | 0x800000u;
  let start = u32(i32(bits >> 23u) - 150 + 30);
  let low = jf_multiply_high(m, jf_window(start + 64u));
  let second = jf_window(start + 32u);
  let middle = m * second + low;
  let carry = jf_multiply_high(m, second) + select(0u, 1u, middle < low);
  let turn = m * jf_window(start) + carry;
  let n = (turn + 0x20000000u) >> 30u;
  var high = turn - (n << 30u);
  var rest = middle;
  let negative = (high & 0x80000000u) != 0u;
  if (negative) {
    rest = ~rest + 1u;
    high = ~high + select(0u, 1u, rest == 0u);
  }
  var exponent = 0;
  if (high == 0u) { high = rest; rest = 0u; exponent = -32; }
  let shift = countLeadingZeros(high);
  if (shift > 0u && shift < 32u) { high = (high << shift) | (rest >> (32u - shift)); rest = rest << shift; }
  exponent -= i32(shift);
  let scale = bitcast<f32>(u32(127 + exponent) << 23u);
  let a = f32(high >> 8u) * 5.9604644775390625e-8;
  let b = f32(((high & 255u) << 16u) | (rest >> 16u)) * 3.552713678800501e-15;
  let p = fence(a * 6.2831854820251465);
  let split = bitcast<f32>(bitcast<u32>(a) & 0xfffff000u);
  let tail = fence(a - split);
  let error = fence(fence(fence(split * 6.283203125) - p) + fence(tail * 6.283203125))
    + (split * -1.7642974853515625e-05 + tail * -1.7642974853515625e-05);
  let lower = error + (a * -1.7484556025237907e-07 + b * 6.2831854820251465);
  let flip = select(1.0, -1.0, negative != (x < 0.0));
  let k = f32(n & 3u);
  return vec3<f32>(p * scale * flip, lower * scale * flip, select(k, -k, x < 0.0));
}
fn jf_reduced(x: f32) -> vec3<f32> {
  if (jf_abs(x) < 1600.0) { return jf_turns(x); }
  return jf_large_turns(x);
}
fn jf_sine(r: f32, low: f32) -> f32 {
  let z = r * r;
  return r + (r * z * ((-1.9515295891e-4 * z + 8.3321608736e-3) * z - 1.6666654611e-1) + low * (1.0 - 0.5 * z));
}
fn jf_cosine(r: f32, low: f32) -> f32 {
  let z = fence(r * r);
  let half = 0.5 * z;
  let head = fence(1.0 - half);
  let tail = z * z * ((2.443315711809948e-5 * z - 1.388731625493765e-3) * z + 4.166664568298827e-2);
  return head + (fence(fence(1.0 - head) - half) + (tail - r * low));
}
fn jf_sin(x: f32) -> f32 {
  if (!jf_is_finite(x)) { return literal(0x7fc00000u); }
  if (jf_abs(x) < 1e-4) { return x; }
  let t = jf_reduced(x);
  let n = i32(t.z);
  let y = select(jf_sine(t.x, t.y), jf_cosine(t.x, t.y), (n & 1) != 0);
  return select(y, jf_negative(y), (n & 2) != 0);
}
fn jf_cos(x: f32) -> f32 {
  if (!jf_is_finite(x)) { return literal(0x7fc00000u); }
  let t = jf_reduced(x);
  let n = i32(t.z) + 1;
  let y = select(jf_sine(t.x, t.y), jf_cosine(t.x, t.y), (n & 1) != 0);
  return select(y, jf_negative(y), (n & 2) != 0);
}
fn jf_tan(x: f32) -> f32 {
  if (!jf_is_finite(x)) { return literal(0x7fc00000u); }
  if (jf_abs(x) < 1e-4) { return x; }
  let t = jf_reduced(x);
  let s = jf_sine(t.x, t.y);
  let c = jf_cosine(t.x, t.y);
  if ((i32(t.z) & 1) != 0) { return jf_negative(c / s); }
  return s / c;
}
"""
