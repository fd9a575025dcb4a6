"""The report of `FusedFunction.explain` as one self-contained page: no scripts, no fonts, no external files.

Owns the page and the picture of the arena. The text comes from `jitfuse.reports.explain`, the picture of a program
from `jitfuse.ir.formats.picture`.
"""
from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from typing import Any, Final

from jitfuse.base.files import write_whole
from jitfuse.ir.formats.picture import DrawnGroup, program_svg
from jitfuse.plans import RuntimePlan
from jitfuse.plans.plan import buffers_of
from jitfuse.reports.explain import heading, report
from jitfuse.version import __version__

_STYLE: Final = """
body{font:15px/1.5 ui-sans-serif,system-ui,'Segoe UI',Helvetica,Arial,sans-serif}
body{color:#1b2733;margin:0;background:#f5f7f9}
main{max-width:1180px;margin:0 auto;padding:28px 24px 60px}
h1{font-size:22px;margin:0 0 4px}h2{font-size:16px;margin:28px 0 8px}
p.sub{color:#51606f;margin:0 0 18px}
section,details{background:#fff;border:1px solid #dde3e9;border-radius:8px;padding:12px 16px;margin:10px 0}
summary{cursor:pointer;font-weight:600}
pre{margin:6px 0 0;overflow-x:auto;font:12.5px/1.45 ui-monospace,'Cascadia Mono',Menlo,Consolas,monospace}
.picture{overflow-x:auto}.picture svg{max-width:100%;height:auto}
@media (prefers-color-scheme:dark){body{background:#12171c;color:#dfe6ec}p.sub{color:#9fb0bf}
section,details{background:#1a2128;border-color:#2c3741}.picture{background:#fff;border-radius:6px}}
"""


def write_page(
    path: str | os.PathLike[str], function: Any, spec: Any, training: bool, plan: RuntimePlan, kernels: Sequence[Any],
    budget: str,
) -> None:
    """Write the page to a file, which is replaced as a whole or not at all."""
    write_whole(path, page(function, spec, training, plan, kernels, budget))


def page(
    function: Any, spec: Any, training: bool, plan: RuntimePlan, kernels: Sequence[Any], budget: str
) -> str:
    """Return the page as HTML."""
    groups = [DrawnGroup(g.name, g.values) for g in plan.groups]
    count = sum(not launch.batched for launch in plan.launches)
    launches = f"{count} kernel launch(es), {len(plan.steps) - len(plan.launches) + len(plan.commits)} "
    parts = [
        f"<h1>{escape(function.name)}</h1>",
        f'<p class="sub">{escape(heading(function, spec, training))} · {launches}library call(s) · '
        f"jitfuse {__version__}</p>",
        _picture("What runs together", program_svg(plan.program, groups)),
        _picture("As written", program_svg(spec.trace.program)),
    ]
    if plan.arena_bytes:
        parts.append(_picture("Temporaries in the arena", arena_svg(plan)))
    for section in report(spec, plan, budget):
        lines = "\n".join(section.lines)
        parts.append(f"<section><h2>{escape(section.title)}</h2><pre>{escape(lines)}</pre></section>")
    parts += [_kernel(k, kernel) for k, kernel in enumerate(kernels)]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(function.name)} · jitfuse</title><style>{_STYLE}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _picture(title: str, svg: str) -> str:
    return f'<section><h2>{escape(title)}</h2><div class="picture">{svg}</div></section>'


def _kernel(number: int, kernel: Any) -> str:
    made = "from the cache" if kernel.from_cache else f"compiled in {kernel.compile_ms:.1f} ms"
    language = "WGSL" if kernel.backend == "wgsl" else "LLVM IR"
    return (
        f"<details><summary>kernel {number}, {escape(kernel.backend)}, {made}: {language}</summary>"
        f"<p class='sub'>{escape(kernel.key)}</p><pre>{escape(kernel.source)}</pre></details>"
    )


def arena_svg(plan: RuntimePlan) -> str:
    """Return a picture of the arena: a bar per temporary, over runtime steps and bytes."""
    touched: dict[Any, list[int]] = {}
    sizes = plan.sizes
    for k, step in enumerate((*plan.steps, *plan.commits)):
        for buffer, _ in buffers_of(step):
            if buffer in plan.offsets:
                touched.setdefault(buffer, []).append(k)
    steps = max(len(plan.steps) + len(plan.commits), 1)
    across, tall = max(300.0, min(1040.0, 60.0 * steps)), 220.0
    bars = []
    for buffer, at in touched.items():
        x, wide = across * at[0] / steps, across * (at[-1] + 1 - at[0]) / steps
        high = max(tall * sizes[buffer] / plan.arena_bytes, 1.5)
        y = tall - tall * plan.offsets[buffer] / plan.arena_bytes - high
        name = f"{buffer[0]} {buffer[1]}: {sizes[buffer]} B at {plan.offsets[buffer]}, steps {at[0]} to {at[-1]}"
        bars.append(
            f'<rect x="{x + 60:.1f}" y="{y + 10:.1f}" width="{max(wide - 1.5, 1):.1f}" height="{high:.1f}" '
            f'fill="#cfe3fb" stroke="#5b8cc4"><title>{escape(name)}</title></rect>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{across + 80:.0f}" height="{tall + 44:.0f}" '
        'font-family="ui-sans-serif,system-ui,sans-serif" font-size="11" fill="#51606f">'
        f'<rect x="60" y="10" width="{across:.0f}" height="{tall:.0f}" fill="#f5f7f9" stroke="#dde3e9"/>{"".join(bars)}'
        f'<text x="54" y="18" text-anchor="end">{_bytes(plan.arena_bytes)}</text>'
        f'<text x="54" y="{tall + 10:.0f}" text-anchor="end">0</text>'
        f'<text x="60" y="{tall + 28:.0f}">first step</text>'
        f'<text x="{across + 60:.0f}" y="{tall + 28:.0f}" text-anchor="end">last step</text></svg>'
    )


def _bytes(n: int) -> str:
    amount, units = float(n), ["GiB", "MiB", "KiB", "B"]
    while amount >= 1024 and len(units) > 1:
        amount /= 1024
        units.pop()
    return f"{amount:.3g} {units[-1]}"
