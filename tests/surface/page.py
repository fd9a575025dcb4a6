"""Pages of functions: lists of examples as tables of what a fused function makes of each.

Owns how such a list is written and how its table looks. Does not own what comes of an example
(`surface.examples`).
"""
from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping

import numpy as np
from surface.examples import Outcome, words

Sections = Mapping[str, Mapping[str, list[str]]]


def listed(sections: Mapping[str, str]) -> dict[str, dict[str, list[str]]]:
    """Return section -> function -> its examples, from lines ``function: example; example`` by section."""
    found: dict[str, dict[str, list[str]]] = {}
    for title, text in sections.items():
        section = found[title] = {}
        for line in filter(None, map(str.strip, text.splitlines())):
            name, _, examples = line.partition(": ")
            section[name] = [e.strip() for e in examples.split("; ")]
    return found


def page_of(intro: str, sections: Sections, tried: Callable[[str], Outcome]) -> str:
    """Return a page: the introduction, with the number of functions as `count`, and a table for each section.

    `tried` returns what comes of one example.
    """
    lines = [intro.format(count=sum(map(len, sections.values())))]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for title, section in sections.items():
            lines += [f"## {title}\n", "| Function | Inside a fused function | For example |", "|---|---|---|"]
            for name, examples in section.items():
                how, example = words([tried(e) for e in examples]), examples[0]
                lines.append(f"| `{name}` | {how.replace('|', '&#124;')} | `{example.replace('|', '&#124;')}` |")
            lines.append("")
    return "\n".join(lines)
