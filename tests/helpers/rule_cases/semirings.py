"""Sums of products in a semiring."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from semiring_tables import products, walks

from rule_cases import Case, case, uniform


@case("semiring_sums")
def _() -> Iterator[Case]:
    for carrier in ("log", "sum_product"):
        a, b = uniform(-1, 1, (3, 3)), uniform(-1, 1, (3,), 1)
        yield Case((a, b), walks(carrier, 3))
        yield Case((a, b), walks(carrier, 3), (1,))
        yield Case((b, b + 1), products(carrier, 3))
    zero = np.array([0.5, -np.inf, 0.25])
    yield Case((uniform(-1, 1, (3, 3)), zero), walks("log", 3), (0,))
