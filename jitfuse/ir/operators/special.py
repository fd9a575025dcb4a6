"""Special functions: elementwise library steps, SciPy's gamma family and related ones."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitfuse.ir.operators.op import LIBRARY, Op, add
from jitfuse.ir.rules import dtype_rules, meta_rules
from jitfuse.ir.schema import Meta
from jitfuse.ir.semantics import library


def _special(name: str, arity: int, loop: dtype_rules.LoopRule, doc: str, path: str | None = None) -> None:
    def infer(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
        library.require_scipy(name)
        return meta_rules.elementwise_meta(name, loop, metas)

    reference = library.special(name, path or name, loop is dtype_rules.loop_double_first)
    add(Op(name, arity, LIBRARY, {}, infer, reference, loop, doc=f"{doc} SciPy computes it."))


for _name, _arity, _doc in (
    ("gammaln", 1, "The logarithm of the absolute value of the gamma function."),
    ("gamma", 1, "The gamma function."),
    ("rgamma", 1, "The reciprocal of the gamma function."),
    ("beta", 2, "The beta function."),
    ("betaln", 2, "The logarithm of the absolute value of the beta function."),
    ("gammainc", 2, "The regularised lower incomplete gamma function (a, x)."),
    ("gammaincc", 2, "The regularised upper incomplete gamma function (a, x)."),
    ("gammaincinv", 2, "The inverse of gammainc in its second operand."),
    ("i0", 1, "The modified Bessel function of order 0."),
    ("i0e", 1, "exp(-|x|) times the modified Bessel function of order 0."),
    ("i1", 1, "The modified Bessel function of order 1."),
    ("i1e", 1, "exp(-|x|) times the modified Bessel function of order 1."),
    ("ndtr", 1, "The distribution function of the standard normal distribution."),
    ("log_ndtr", 1, "The logarithm of ndtr."),
):
    _special(_name, _arity, dtype_rules.loop_double_first, _doc)

for _name, _arity, _doc in (
    ("erfinv", 1, "The inverse of the error function."),
    ("erfcinv", 1, "The inverse of the complementary error function."),
    ("ndtri", 1, "The inverse of ndtr."),
):
    _special(_name, _arity, dtype_rules.loop_single_first, _doc)

_special("digamma", 1, dtype_rules.loop_double_first, "The derivative of gammaln.", "psi")
_special("zeta", 2, dtype_rules.loop_single_first, "The Hurwitz zeta function (x, q).", "_ufuncs._zeta")
_special("riemann_zeta", 1, dtype_rules.loop_double_first, "The Riemann zeta function.", "_ufuncs._riemann_zeta")
