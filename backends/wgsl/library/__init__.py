"""The WGSL functions that kernels call: texts that are added to a shader together with their own callees.

Owns: the collection, and which of them a shader needs. The modules with the texts describe what they compute.
"""
from __future__ import annotations

import re
from functools import cache
from typing import Final

from jitfuse.backends.wgsl.library import (
    casts,
    error_function,
    exponential,
    floats,
    integers,
    logarithm,
    power,
    random,
    trigonometric,
    wide,
)
from jitfuse.backends.wgsl.math import text_of

_DEFINITION: Final = re.compile(r"^fn (\w+)", re.MULTILINE)
_NAME: Final = re.compile(r"\bjf_\w+")


@cache
def functions() -> dict[str, str]:
    """Return every function's text by its name."""
    texts = [
        floats.TEXT, integers.TEXT, casts.TEXT, exponential.text(), logarithm.text(), trigonometric.TEXT,
        error_function.text(), power.text(), random.TEXT, wide.text(),
    ]
    found: dict[str, str] = {}
    for text in texts:
        for piece in re.split(r"\n(?=fn )", text.strip()):
            name = _DEFINITION.search(piece)
            assert name is not None, piece
            found[name[1]] = piece.strip()
    return found


def needed(text: str) -> str:
    """Return the functions that a shader's text calls, each after its own callees."""
    found: dict[str, str] = {}

    def visit(part: str) -> None:
        for name in dict.fromkeys(_NAME.findall(part)):
            known = functions().get(name) or text_of(name)
            if known is not None and name not in found:
                visit(known.replace(f"fn {name}", "fn"))
                found[name] = known

    visit(text)
    return "\n".join(found.values())


def fences(rewrites: bool) -> str:
    """Return functions that keep a driver from rewriting float arithmetic, or do nothing unless `rewrites`.

    Drivers may contract products into sums, and replace x - x by 0, x * 0 by 0 and (a + b) - a by b. They do not
    do so through integer operations: `words[0]` holds two zeros that are known only at the launch.
    """
    first, second = (" ^ words[0].x", " ^ words[0].y") if rewrites else ("", "")
    return "\n".join([
        f"fn fence(x: f32) -> f32 {{ return bitcast<f32>(bitcast<u32>(x){first}); }}",
        f"fn apart(x: f32) -> f32 {{ return bitcast<f32>(bitcast<u32>(x){second}); }}",
        "fn literal(bits: u32) -> f32 { return bitcast<f32>(bits ^ words[0].x); }",
    ])


def fences_64(rewrites: bool) -> str:
    """Return the functions of `fences` for float64."""
    first, second = (" ^ u64(words[0].x)", " ^ u64(words[0].y)") if rewrites else ("", "")
    return "\n".join([
        f"fn fence_64(x: f64) -> f64 {{ return bitcast<f64>(bitcast<u64>(x){first}); }}",
        f"fn apart_64(x: f64) -> f64 {{ return bitcast<f64>(bitcast<u64>(x){second}); }}",
        "fn literal_64(low: u32, high: u32) -> f64 {",
        "  return bitcast<f64>((u64(high) << 32u) | u64(low ^ words[0].x));",
        "}",
    ])
