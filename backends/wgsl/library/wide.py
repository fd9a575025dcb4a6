"""Integers of 128 bits as pairs of u64, low one first, and the bits of 2/pi, for the reduction of large angles."""
from __future__ import annotations

from jitfuse.backends.llvm.math.reduction import TWO_OVER_PI_WORDS

_ARITHMETIC = """
fn jf_clz_64(x: u64) -> u64 {
  let high = u32(x >> 32u);
  if (high != 0u) { return u64(countLeadingZeros(high)); }
  return 32lu + u64(countLeadingZeros(u32(x & 0xfffffffflu)));
}
fn jf_funnel(a: u64, b: u64, n: u64) -> u64 {
  let k = u32(n & 63lu);
  if (k == 0u) { return a; }
  return (a << k) | (b >> (64u - k));
}
fn jf_wide_add(a: vec2<u64>, b: vec2<u64>) -> vec2<u64> {
  let low = a.x + b.x;
  return vec2<u64>(low, a.y + b.y + select(0lu, 1lu, low < a.x));
}
fn jf_wide_subtract(a: vec2<u64>, b: vec2<u64>) -> vec2<u64> {
  return vec2<u64>(a.x - b.x, a.y - b.y - select(0lu, 1lu, a.x < b.x));
}
fn jf_wide_multiply(a: vec2<u64>, b: vec2<u64>) -> vec2<u64> {
  let al = a.x & 0xfffffffflu;
  let ah = a.x >> 32u;
  let bl = b.x & 0xfffffffflu;
  let bh = b.x >> 32u;
  let low = al * bl;
  let middle = ah * bl + (low >> 32u);
  let other = al * bh + (middle & 0xfffffffflu);
  return vec2<u64>(a.x * b.x, ah * bh + (middle >> 32u) + (other >> 32u));
}
fn jf_wide_shl(a: vec2<u64>, n: u32) -> vec2<u64> {
  if (n == 0u) { return a; }
  if (n >= 64u) { return vec2<u64>(0lu, a.x << (n - 64u)); }
  return vec2<u64>(a.x << n, (a.y << n) | (a.x >> (64u - n)));
}
fn jf_wide_lshr(a: vec2<u64>, n: u32) -> vec2<u64> {
  if (n == 0u) { return a; }
  if (n >= 64u) { return vec2<u64>(a.y >> (n - 64u), 0lu); }
  return vec2<u64>((a.x >> n) | (a.y << (64u - n)), a.y >> n);
}
fn jf_wide_select(c: bool, a: vec2<u64>, b: vec2<u64>) -> vec2<u64> {
  return vec2<u64>(select(b.x, a.x, c), select(b.y, a.y, c));
}
"""


def text() -> str:
    """Return the functions."""
    cases = "".join(f"    case {k}u: {{ return {w:#x}lu; }}\n" for k, w in enumerate(TWO_OVER_PI_WORDS))
    body = f"  switch (i) {{\n{cases}    default: {{ return 0lu; }}\n  }}"
    return f"{_ARITHMETIC}fn jf_two_over_pi_table(i: u32) -> u64 {{\n{body}\n}}\n"
