"""Floats to integers as on x86-64: values out of range, and NaN, become the smallest integer.

Unsigned 32-bit integers take the low half of the 64-bit conversion; 64-bit integers in memory are two words.
"""
from __future__ import annotations

from typing import Final

TEXT: Final = """
fn jf_f32_to_i32(x: f32) -> i32 {
  if ((bitcast<u32>(x) & 0x7fffffffu) < 0x4f000000u) { return i32(x); }
  return bitcast<i32>(0x80000000u);
}
fn jf_f32_to_i64(x: f32) -> i64 {
  if ((bitcast<u32>(x) & 0x7fffffffu) < 0x5f000000u) { return i64(x); }
  return bitcast<i64>(0x8000000000000000lu);
}
fn jf_f64_to_i32(x: f64) -> i32 {
  if ((bitcast<u64>(x) & 0x7ffffffffffffffflu) < 0x41e0000000000000lu) { return i32(x); }
  return bitcast<i32>(0x80000000u);
}
fn jf_f64_to_i64(x: f64) -> i64 {
  if ((bitcast<u64>(x) & 0x7ffffffffffffffflu) < 0x43e0000000000000lu) { return i64(x); }
  return bitcast<i64>(0x8000000000000000lu);
}
fn jf_f32_to_u32(x: f32) -> u32 {
  let bits = bitcast<u32>(x) & 0x7fffffffu;
  if (bits >= 0x5f000000u || bits < 0x3f800000u) { return 0u; }
  let e = i32(bits >> 23u) - 150;
  let m = (bits & 0x7fffffu) | 0x800000u;
  var size = 0u;
  if (e <= 0) { size = m >> u32(-e); } else if (e < 32) { size = m << u32(e); }
  return select(size, 0u - size, x < 0.0);
}
fn jf_f64_to_u32(x: f64) -> u32 { return u32(bitcast<u64>(jf_f64_to_i64(x)) & 0xfffffffflu); }
fn jf_pair_to_i64(p: vec2<u32>) -> i64 { return bitcast<i64>((u64(p.y) << 32u) | u64(p.x)); }
fn jf_pair_to_u64(p: vec2<u32>) -> u64 { return (u64(p.y) << 32u) | u64(p.x); }
fn jf_i64_to_pair(x: i64) -> vec2<u32> {
  let u = bitcast<u64>(x);
  return vec2<u32>(u32(u & 0xfffffffflu), u32(u >> 32u));
}
fn jf_u64_to_pair(x: u64) -> vec2<u32> { return vec2<u32>(u32(x & 0xfffffffflu), u32(x >> 32u)); }
fn jf_i32_to_pair(x: i32) -> vec2<u32> { return vec2<u32>(bitcast<u32>(x), bitcast<u32>(x >> 31u)); }
"""
