"""All of NumPy's functions that traced arrays take: imported when the first of them is called in a trace."""
from __future__ import annotations

from jitfuse.tracing.numpy_like import arrangements as arrangements
from jitfuse.tracing.numpy_like import assembly as assembly
from jitfuse.tracing.numpy_like import calculus as calculus
from jitfuse.tracing.numpy_like import choices as choices
from jitfuse.tracing.numpy_like import complex_numbers as complex_numbers
from jitfuse.tracing.numpy_like import data_dependent as data_dependent
from jitfuse.tracing.numpy_like import elementwise as elementwise
from jitfuse.tracing.numpy_like import moments as moments
from jitfuse.tracing.numpy_like import nan_reductions as nan_reductions
from jitfuse.tracing.numpy_like import norms as norms
from jitfuse.tracing.numpy_like import polynomials as polynomials
from jitfuse.tracing.numpy_like import products as products
from jitfuse.tracing.numpy_like import reductions as reductions
from jitfuse.tracing.numpy_like import scans as scans
from jitfuse.tracing.numpy_like import shapes as shapes
from jitfuse.tracing.numpy_like import sorting as sorting
from jitfuse.tracing.numpy_like import statistics as statistics
from jitfuse.tracing.tensor import gathering as gathering
from jitfuse.tracing.tensor.function_table import FUNCTIONS

__all__ = ["FUNCTIONS"]
