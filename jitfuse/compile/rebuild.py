"""Rebuilds cached code from the kernel forms in its entry, to check an entry written elsewhere.

The code generator is deterministic: on one kind of machine, with one jitfuse and one LLVM, a kernel form gives the
same bytes in every process. So an entry need not be trusted: if rebuilding gives the same code, the rebuilt entry
replaces it, listings and all. Owns that comparison, and which metadata of an entry remain its claims. Does not own
files.

Nothing of an entry reaches LLVM but kernel forms, and only those that `jitfuse.ir.kernels.verify_form` accepts.
"""
from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

from jitfuse.backends.llvm.loader import link
from jitfuse.backends.llvm.runtime import native
from jitfuse.base.records import NamedTuple
from jitfuse.cache import Entry, compress_text
from jitfuse.cache import metadata as entry_metadata
from jitfuse.cache.parts import key_from_parts, recorded_parts
from jitfuse.compile.objects.kernel_object import Making, kernel_text
from jitfuse.compile.objects.keys import LEVEL, kernel_parts, runtime_parts
from jitfuse.compile.objects.origin import Origin
from jitfuse.errors import CompileError, JitfuseError, KernelTooLargeError
from jitfuse.ir.kernels.decoding import form_of
from jitfuse.ir.kernels.form import KernelForm
from jitfuse.ir.kernels.verify_form import MAX_FORM_BYTES, verify_form

MOST_FORMS: Final = 1 << 10
"""Kernels of one object that are rebuilt."""
MOST_LINES: Final = 1 << 15
"""Lines of LLVM IR per function: the largest of the tests has 23,000. LLVM takes 0.1 to 1 ms for each."""


class Verdict(Enum):
    """The result of checking an entry; the value says it in words."""

    SAME = "made again here, it is the same to the byte"
    FOREIGN = "made for another machine or by another version, so it cannot be made again here"
    UNKNOWN_KEY = "does not say what its key is made of"
    MISNAMED = "its key is not that of its content"
    DIFFERENT = "its code is not what its kernel form compiles to"
    BROKEN = "its kernel form cannot be compiled"
    TOO_LARGE = "it is too large to be made again for a check"


class Remade(NamedTuple):
    """A verdict, its reason if it has one, and the entry as this process makes it if it is the same."""

    verdict: Verdict
    why: str = ""
    entry: Entry | None = None

    @property
    def text(self) -> str:
        """The verdict in words."""
        return f"{self.verdict.value}{f': {self.why}' if self.why else ''}"


def check(entry: Entry) -> Verdict:
    """Rebuild an entry's code and compare; takes as long as compiling. Never raises because of the entry's content."""
    return remade(entry).verdict


def remade(entry: Entry) -> Remade:
    """Rebuild an entry and compare, as `check` does; an equal one is returned as rebuilt here.

    The function, its file:line and the program cannot be rebuilt: they are kept as the entry's own claims.
    """
    key = key_from_parts(entry)
    if key is None:
        return Remade(Verdict.UNKNOWN_KEY)
    if key != entry.key:
        return Remade(Verdict.MISNAMED)
    try:
        made = _made_again(entry)
    except KernelTooLargeError as error:
        return Remade(Verdict.TOO_LARGE, str(error))
    except JitfuseError as error:
        return Remade(Verdict.BROKEN, str(error).partition("\n    v")[0].replace("\n", " ")[:200])
    except Exception as error:  # unexpected: whatever it is, nothing of the entry is taken
        return Remade(Verdict.BROKEN, type(error).__name__)
    if made is None:
        return Remade(Verdict.FOREIGN)
    if (made.key, made.canonical) != (entry.key, entry.canonical):
        return Remade(Verdict.MISNAMED)
    if made.code != entry.code:
        return Remade(Verdict.DIFFERENT)
    return Remade(Verdict.SAME, "", _with_claims(made, entry.metadata))


def assembly(canonical: bytes) -> str:
    """Return the assembly of kernel forms after verifying them; raises JitfuseError for invalid ones."""
    from jitfuse.backends.llvm import jit

    return jit.assembly(kernel_text(_forms(canonical), MOST_LINES), level=LEVEL)


def kernel_code(forms: Sequence[KernelForm]) -> bytes:
    """Return the code of valid kernel forms as it is stored; the same in every process on this kind of machine."""
    return _compiled(kernel_text(forms, MOST_LINES))


def _compiled(text: str) -> bytes:
    from jitfuse.backends.llvm.jit import compile_text

    return link(compile_text(text, level=LEVEL, verify=True))


def _made_again(entry: Entry) -> Entry | None:
    """Return an entry of the same form, made here; None if it cannot be made here."""
    parts = recorded_parts(entry.metadata)
    if parts == kernel_parts():
        forms, begin = _forms(entry.canonical), time.perf_counter()
        text = kernel_text(forms, MOST_LINES)
        making = Making(entry.canonical, _NO_ORIGIN, (forms, text))
        making.code = _compiled(text)
        making.milliseconds = (time.perf_counter() - begin) * 1e3
        return making.entry()
    if parts == runtime_parts("runtime", native.key_parts()):
        from jitfuse.compile.objects.runtime_object import runtime_entry

        return runtime_entry("runtime", native.runtime_text, native.key_parts())
    if (parts or {}).get("backend") == "wgsl":
        return _shader(entry, parts)
    return None


_NO_ORIGIN: Final = Origin("", "")


def _forms(canonical: bytes) -> list[KernelForm]:
    """Return the verified forms of an entry; raises JitfuseError for invalid ones."""
    if canonical.count(b"\0") >= MOST_FORMS:
        raise KernelTooLargeError(f"an object of more than {MOST_FORMS} kernels")
    return [_form(data) for data in canonical.split(b"\0")]


def _form(data: bytes) -> KernelForm:
    if len(data) > MAX_FORM_BYTES:
        raise KernelTooLargeError(f"a kernel form of {len(data):,} bytes, more than {MAX_FORM_BYTES:,}")
    form = form_of(data)
    verify_form(form)
    return form


def _shader(entry: Entry, parts: Any) -> Entry | None:
    """Rebuild a kernel's WGSL, if this process has the adapter that it was written for."""
    from jitfuse.backends.wgsl.runtime.device import default_device
    from jitfuse.compile.gpu import kernels

    try:
        device = default_device()
    except JitfuseError:
        return None
    if parts != kernels.device_parts(device):
        return None
    source: kernels.Source | None = kernels.RECORD_SOURCES.get(entry.canonical)
    if source is None:
        data, _, variant = entry.canonical.rpartition(b"\0")
        form = _form(data)
        source = kernels.FormSource(form, _variant(form, variant))
    return kernels.shader_entry(source, device, _NO_ORIGIN)


def _variant(form: KernelForm, text: bytes) -> Any:
    """Return the variant named in an entry; raises CompileError if the form has none such."""
    from jitfuse.backends.wgsl.codegen.variant import POINTS, ROWS, Variant

    plain = text[: MAX_FORM_BYTES].decode("ascii", "replace").replace("'", '"').replace(",)", ")")
    try:
        mode, group, *numbers = json.loads(plain.translate({40: "[", 41: "]"}))
        found = Variant(mode, group, *(tuple(map(int, n)) for n in numbers))
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise CompileError("the bytes behind the kernel form are no variant") from error
    operands, values = range(-1, len(form.operands)), range(len(form.instructions))
    if found.mode not in (POINTS, ROWS) or type(group) is not int or not 1 <= group <= 1 << 10 or not (
        set(found.narrow) <= set(values) and set(found.inline) | set(found.bindings) <= set(operands)
        and len(found.bindings) == len(form.operands)
    ):
        raise CompileError("the variant does not fit the kernel form")
    return found


def _with_claims(made: Entry, claims: Mapping[str, Any]) -> Entry:
    """Return an entry with those metadata of another one that cannot be rebuilt, marked as its claims."""
    if not made.metadata.get("kernels"):
        return made  # the runtime has no function
    claimed: dict[str, Any] = dict(entry_metadata.claims(claims))
    claimed["program"] = compress_text(claimed["program"])
    return made._replace(metadata={**made.metadata, **claimed, "claimed": sorted(claimed)})
