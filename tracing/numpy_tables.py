"""All of NumPy's functions that traced arrays take: imported when the first of them is called in a trace."""
from __future__ import annotations

from jitfuse.tracing import gathering as gathering
from jitfuse.tracing import numpy_arrangements as numpy_arrangements
from jitfuse.tracing import numpy_assembly as numpy_assembly
from jitfuse.tracing import numpy_calculus as numpy_calculus
from jitfuse.tracing import numpy_choices as numpy_choices
from jitfuse.tracing import numpy_complex as numpy_complex
from jitfuse.tracing import numpy_elementwise as numpy_elementwise
from jitfuse.tracing import numpy_library as numpy_library
from jitfuse.tracing import numpy_moments as numpy_moments
from jitfuse.tracing import numpy_nan_reductions as numpy_nan_reductions
from jitfuse.tracing import numpy_norms as numpy_norms
from jitfuse.tracing import numpy_observed as numpy_observed
from jitfuse.tracing import numpy_polynomials as numpy_polynomials
from jitfuse.tracing import numpy_products as numpy_products
from jitfuse.tracing import numpy_reductions as numpy_reductions
from jitfuse.tracing import numpy_scans as numpy_scans
from jitfuse.tracing import numpy_shapes as numpy_shapes
from jitfuse.tracing import numpy_statistics as numpy_statistics
from jitfuse.tracing.numpy_functions import FUNCTIONS

__all__ = ["FUNCTIONS"]
