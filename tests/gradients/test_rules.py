"""Every row of the op table has a rule or says why not, and every rule agrees with central differences."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from derivatives_checked import check, check_twice, of_tensors, one_step, run
from rule_cases import (
    CASES,
    CONSTANT,
    REFUSED,
    RULES,
    SMOOTH,
    arrangements,
    elementwise,
    indexing,
    reductions,
    semirings,
    uniform,
)
from rule_cases.linear_algebra import SYMMETRIC, of_symmetric, regular

import jitfuse as jf
from jitfuse.dtypes import kind
from jitfuse.errors import DerivativeError, DTypeError
from jitfuse.gradients.programs import forward, reverse
from jitfuse.gradients.rules.linear_algebra import parts_of
from jitfuse.ir.operators import ops

FAMILIES = (elementwise, reductions, arrangements, indexing, semirings)  # their cases are entered by the import


# ---------------------------------------------------------------- loops and branches
def scanned(x: Any, w: Any) -> Any:
    return jf.scan(lambda c, a: (np.tanh(c @ w) + a, c * a), x[0], x)


def scanned_back(x: Any, w: Any) -> Any:
    return jf.scan(lambda c, a: (np.sin(c) * a, c.sum()), x[0], x @ w, reverse=True)


FUNCTIONS: dict[str, list[Callable[..., Any]]] = {
    "cond": [lambda x, w: jf.cond(x.sum() > 0, lambda v: v @ w, lambda v: v * w[0], x),
             lambda x, w: jf.cond(x.sum() < 0, lambda v: (v @ w, 3), lambda v: (v * w[0], 4), x)[0]],
    "scan": [scanned, scanned_back],
    "fori_loop": [lambda x, w: jf.fori_loop(0, 3, lambda i, v: np.tanh(v @ w) * (i + 1), x),
                  lambda x, w: jf.fori_loop(2, 2, lambda i, v: v @ w, x)],
    "while_loop": [lambda x, w: jf.while_loop(lambda v: v[0].sum() < 30, lambda v: (v[0] * 2, np.tanh(v[1] @ w)),
                                              (abs(x), x))[1]],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_loops_and_branches(name: str) -> None:
    operands = uniform(0.1, 1, (3, 4)), uniform(-1, 1, (4, 4))
    for function in FUNCTIONS[name]:
        program = jf.fuse(function).program(*operands)
        assert name in program.op_names
        if name == "while_loop":
            made = forward(program, program.ordered_feeds)
            assert name in made.program.op_names
            with pytest.raises(DerivativeError, match="no reverse-mode derivative"):
                reverse(program, program.ordered_feeds)
        else:
            check_twice(program, operands, (0, 1))
            check(program, operands, (0,))
            check(program, operands, (1,))


# ---------------------------------------------------------------- all rows
def test_every_row_has_a_rule_or_a_reason() -> None:
    for name, rule in RULES.items():
        ways = [rule.forward, rule.reverse, rule.through, rule.reason, rule.constant]
        assert any(ways), f"{name} has neither a rule nor a reason"
    assert len(RULES) == len(list(ops.table())) == len(CONSTANT) + len(REFUSED) + len(SMOOTH)
    missing = sorted({*SMOOTH} - {*CASES} - {*FUNCTIONS} - {"eig", "checkpoint", "custom_jvp", "custom_vjp"})
    assert not missing, f"rules without a case: {missing}"


@pytest.mark.parametrize("name", list(CASES))
def test_rules(name: str) -> None:
    for number, made in enumerate(CASES[name]()):
        wanted = made.wanted
        if wanted is None:
            wanted = tuple(k for k, x in enumerate(made.operands) if kind(str(x.dtype)) in ("float", "complex"))
        program = (of_symmetric if name in SYMMETRIC else one_step)(name, made.operands, made.attrs)
        again = check_twice if made.second and number < 4 else check
        try:
            again(program, made.operands, wanted, tolerance=made.tolerance)
        except Exception as error:
            error.add_note(f"{name} with {made.attrs} of {[f'{x.dtype}{list(x.shape)}' for x in made.operands]} "
                           f"by {wanted}")
            raise


def conj(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def of_svd(x: Any) -> Any:
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return (u * np.cos(s)) @ vh, abs(u) ** 2


def of_eigh(x: Any) -> Any:
    values, vectors = np.linalg.eigh(x + conj(x))
    return (vectors * np.sin(values)) @ conj(vectors), abs(vectors) ** 2


def of_qr(x: Any) -> Any:
    q, r = np.linalg.qr(x)
    return q @ conj(q), abs(r) ** 2, abs(q) ** 2


@pytest.mark.parametrize("function", [of_svd, of_eigh, of_qr])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_decompositions(function: Callable[..., Any], dtype: str) -> None:
    """What does not depend on the phases of vectors, which are any."""
    for shape in ((3, 3), *(((4, 3),) if function in (of_svd, of_qr) else ()), *(
            ((3, 4),) if function is of_svd else ())):
        x = regular(shape, dtype)
        check_twice(jf.fuse(function).program(x), (x,), (0,), tolerance=2e-6)


def test_eigenvectors() -> None:
    def function(x: Any) -> Any:
        values, vectors = parts_of("eig", x, x.call("eig"))
        return vectors.call("abs").multiply(values.reshape((1, 3)))

    for dtype in ("float64", "complex128"):
        x = regular((3, 3), dtype)
        check_twice(of_tensors((x,), function), (x,), (0,), tolerance=2e-6)


@pytest.mark.parametrize("name", [
    n for n in (*CONSTANT, "sign") if (row := ops.get(n)) and row.kind == ops.ELEMENTWISE])
def test_constant_rows_have_no_changes(name: str) -> None:
    row = ops.get(name)
    assert row is not None
    operands = [uniform(1.1, 1.9, (4,), k) for k in range(row.arity)]
    try:
        program = one_step(name, operands, {})
    except DTypeError:
        return  # of integers alone
    if name == "stop_gradient" or kind(program.meta[program.outputs["y"]].dtype) != "float":
        made = reverse(program, program.ordered_feeds)
        given = [np.ones(4)] * len(made.changes)
        names = [f"d{k}" for k in range(row.arity)]
        assert all(np.all(np.asarray(d) == 0) for d in run(made.program, [*operands, *given], names))
        return
    check(program, operands, tuple(range(row.arity)), tolerance=1e-9)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "gammaincinv", "zeta"])
def test_an_operand_without_a_derivative_is_refused(name: str) -> None:
    """It is not one whose derivative is 0."""
    operands = (uniform(1.5, 3, (4,)), uniform(0.2, 0.8, (4,)))
    program = one_step(name, operands, {})
    for mode in (reverse, forward):
        with pytest.raises(DerivativeError, match=f"{name} has no derivative by its first operand"):
            mode(program, program.ordered_feeds)


def test_refused_rows_say_why() -> None:
    for name in REFUSED:
        assert len(RULES[name].reason) > 10
    x = uniform(1, 2, (4,))
    program = one_step("riemann_zeta", (x,), {})
    for mode in (reverse, forward):
        with pytest.raises(DerivativeError, match=r"riemann_zeta has no derivative: its derivative has no operator"):
            mode(program, program.ordered_feeds)


def test_quantiles_by_unusual_methods_are_refused() -> None:
    program = one_step("quantile", (uniform(1, 2, (4,)), np.array(0.3)), {"axis": None, "method": "hazen"})
    for mode in (reverse, forward):
        with pytest.raises(DerivativeError, match=r"quantile with method='hazen' has no derivative"):
            mode(program, program.ordered_feeds)
