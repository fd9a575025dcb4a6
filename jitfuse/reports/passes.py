"""The report of a torch function whose arguments require gradients: its two passes, and what is kept between them.

Decides nothing: what is kept is the choice of `jitfuse.gradients.keeping`.
"""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from jitfuse.errors import JitfuseError
from jitfuse.function.autograd import Gradients, tensors_in
from jitfuse.function.parts import Parts
from jitfuse.ir.program import FusedProgram
from jitfuse.reports import public_methods


def explain_passes(
    parts: Parts, args: tuple[Any, ...], kwargs: dict[str, Any], html: str | os.PathLike[str] | None
) -> str:
    """Return the report; the pages of `html` have ``forward`` and ``backward`` before the suffix of the file's name."""
    gradients = parts.gradients = parts.gradients or Gradients(parts)
    _, transform, forward = gradients.forward_pass(args, kwargs)
    training = parts.definition.pop_mode(args, kwargs)[0]
    with transform.of(tensors_in(args, kwargs)), torch.no_grad():
        try:
            first = forward.explain(*args, html=_page(html, "forward"), **kwargs)
        except JitfuseError as error:
            return f"{parts.definition.name} runs as torch's own code where tensors require gradients: {error}"
        trace = public_methods.report(public_methods.traced, forward.parts, args, kwargs)
        token: Any = trace.result.leaves[0]  # of `Forward`
        made = transform.backward(token.value, training)
        assert made is not None, "the newest trace has its backward pass"
        if not made.program.feeds:
            return f"{first}\n\nno backward pass: nothing is computed from a tensor that requires gradients"
        backward = gradients.pull_back(made, training)
        second = backward.explain(*_feeds(made.program), html=_page(html, "backward"))
    kept = "\n  ".join(["kept for the backward pass", *made.lines])
    return f"{first}\n\n{kept}\n\n{second}"


def _page(html: str | os.PathLike[str] | None, which: str) -> Path | None:
    if html is None:
        return None
    path = Path(html)
    return path.with_suffix(f".{which}{path.suffix}")


def _feeds(program: FusedProgram) -> list[Any]:
    """Return tensors like a program's feeds."""
    metas = [program.meta[feed] for feed in program.ordered_feeds]
    return [torch.zeros(meta.shape, dtype=getattr(torch, meta.dtype)) for meta in metas]
