"""All of NumPy's functions that traced arrays take: imported when the first of them is called in a trace."""
from __future__ import annotations

from jitfuse.tracing import gathering as gathering
from jitfuse.tracing import numpy_arrangements as numpy_arrangements
from jitfuse.tracing import numpy_complex as numpy_complex
from jitfuse.tracing import numpy_elementwise as numpy_elementwise
from jitfuse.tracing import numpy_library as numpy_library
from jitfuse.tracing import numpy_products as numpy_products
from jitfuse.tracing import numpy_reductions as numpy_reductions
from jitfuse.tracing import numpy_scans as numpy_scans
from jitfuse.tracing import numpy_shapes as numpy_shapes
from jitfuse.tracing.numpy_functions import FUNCTIONS

__all__ = ["FUNCTIONS"]
