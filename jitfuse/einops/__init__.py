"""einops' functions and layers, which become operations over named axes: `from jitfuse import einops`.

See docs/einops.md.
"""
from __future__ import annotations

from jitfuse.einops import compiling as _compiling
from jitfuse.einops.conversions import asnumpy as asnumpy
from jitfuse.einops.conversions import parse_shape as parse_shape
from jitfuse.einops.errors import EinopsError as EinopsError
from jitfuse.einops.packing import pack as pack
from jitfuse.einops.packing import unpack as unpack
from jitfuse.einops.products import einsum as einsum
from jitfuse.einops.transforms import rearrange as rearrange
from jitfuse.einops.transforms import reduce as reduce
from jitfuse.einops.transforms import repeat as repeat

__all__ = ["EinopsError", "asnumpy", "einsum", "pack", "parse_shape", "rearrange", "reduce", "repeat", "unpack"]

_compiling.allow((rearrange, reduce, repeat, einsum, pack, unpack))
