"""Philox-4x32-10 (Salmon et al., 2011): uniform numbers from a key and a counter, as
`jitfuse.ir.semantics.reference.philox`."""
from __future__ import annotations

from typing import Final

TEXT: Final = """
fn jf_multiply_high(a: u32, b: u32) -> u32 {
  let al = a & 0xffffu;
  let ah = a >> 16u;
  let bl = b & 0xffffu;
  let bh = b >> 16u;
  let low = al * bl;
  let middle = ah * bl + (low >> 16u);
  let other = al * bh + (middle & 0xffffu);
  return ah * bh + (middle >> 16u) + (other >> 16u);
}
fn jf_philox(seed: vec2<u32>, counter: u32, index: u32, element: vec2<u32>) -> vec2<u32> {
  var key = seed;
  var c = vec4<u32>(element.x, element.y, counter, index);
  for (var round = 0u; round < 10u; round++) {
    let high = vec2<u32>(jf_multiply_high(c.x, 0xD2511F53u), jf_multiply_high(c.z, 0xCD9E8D57u));
    c = vec4<u32>(high.y ^ c.y ^ key.x, c.z * 0xCD9E8D57u, high.x ^ c.w ^ key.y, c.x * 0xD2511F53u);
    key += vec2<u32>(0x9E3779B9u, 0xBB67AE85u);
  }
  return c.xy;
}
fn jf_uniform_f32(bits: vec2<u32>) -> f32 { return f32(bits.x >> 8u) * 5.9604644775390625e-8; }
fn jf_uniform_f64(bits: vec2<u32>) -> f64 {
  return f64(((u64(bits.x) << 32u) | u64(bits.y)) >> 11u) * 1.1102230246251565e-16lf;
}
"""
