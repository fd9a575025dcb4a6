"""The kernels of a plan at run time: loaded objects and their cache entries.

Does not own where objects come from (`jitfuse.compile.objects.objects`), keys, or the cache's files.
"""
from __future__ import annotations

import ctypes
import marshal
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from jitfuse.backends.llvm.loader import load
from jitfuse.cache import Entry, compress_text, expand_text
from jitfuse.compile.objects.keys import kernel_parts, object_key
from jitfuse.compile.objects.origin import Origin, entry_metadata, recorded_milliseconds
from jitfuse.errors import CompileError

if TYPE_CHECKING:
    from jitfuse.ir.kernels.form import KernelForm

REFERENCE: Final = b"kernel in "
"""The beginning of an entry that names the object of a kernel; no system's native code begins so."""
MARSHAL: Final = 2
KERNEL: Final = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
"""A kernel called from Python; holds the GIL, so that launches that reserve random numbers are not interrupted."""


class KernelObject:
    """Loaded native code of an ordered tuple of kernel forms; freed with its last user.

    Raises CompileError if the code cannot be loaded or lacks one of the kernels.
    """

    def __init__(self, canonical: bytes, code: bytes, entry: Entry | Making) -> None:
        self.canonical = canonical
        self.from_cache = isinstance(entry, Entry)
        self.load_ms = 0.0
        self.unpublished = False
        """Whether it was compiled here and is not in the cache yet."""
        self.members = {form: k for k, form in enumerate(canonical.split(b"\0"))}
        """The number of each kernel, by its canonical form."""
        self._entry = entry
        self._library = load(code)
        if lacking := {f"k{k}" for k in self.members.values()} - self._library.names:
            raise CompileError(f"the object has no kernel {', '.join(sorted(lacking))}")

    @property
    def entry(self) -> Entry:
        """The object's cache entry."""
        if not isinstance(self._entry, Entry):
            self._entry = self._entry.entry()
        return self._entry

    @property
    def key(self) -> str:
        """The object's key in the cache."""
        return self.entry.key

    def entries(self) -> Iterator[Entry]:
        """Yield the object's entry, then the references to its kernels."""
        yield self.entry
        yield from references(self.entry, object_key)

    def address(self, k: int) -> int:
        """Return the address of the k-th kernel."""
        return self._library.address(f"k{k}")

    @property
    def compile_ms(self) -> float:
        """Milliseconds that generating and compiling the code took, in whichever process."""
        return recorded_milliseconds(self.entry)

    @property
    def source(self) -> str:
        """The LLVM IR of the object."""
        return expand_text(self.entry.metadata.get("ir"))


class Kernels:
    """The kernels of a plan, by number, each part of an object. `compiled` is the object that was made for them."""

    def __init__(self, members: Sequence[tuple[KernelObject, int]], compiled: KernelObject | None = None) -> None:
        self.members = tuple(members)
        self.compiled = compiled

    @property
    def objects(self) -> tuple[KernelObject, ...]:
        """The objects, each once, in the order of the kernels."""
        return tuple(dict.fromkeys(made for made, _ in self.members))

    def address(self, k: int) -> int:
        """Return the address of the k-th kernel."""
        made, number = self.members[k]
        return made.address(number)


class Making:
    """Metadata of an object that LLVM is compiling, and its entry once it is compiled.

    Most of the time of a first entry is reading sources for its key. It is made during the compilation if they have
    been read, else when it is needed. If that is unlikely, as without a cache, neither forms nor text are kept until
    then: both can be made again.
    """

    def __init__(self, canonical: bytes, origin: Origin, made_of: tuple[Sequence[KernelForm], str] | None) -> None:
        self.canonical = canonical
        self.code = b""
        self.milliseconds = 0.0
        self._origin = origin
        self._made_of = made_of
        self._key_and_metadata: tuple[str, dict[str, Any]] | None = None

    def key_and_metadata(self) -> tuple[str, dict[str, Any]]:
        """Return key and metadata."""
        from jitfuse.cache.parts import describe

        if self._key_and_metadata is None:
            forms, text = self._made_of or self._again()
            self._key_and_metadata = object_key(self.canonical), {
                **entry_metadata(self._origin), "ir": compress_text(text),
                "kernels": [f"k{k}" for k in range(len(forms))],
                "forms": compress_text("\n\n".join(str(f) for f in forms)), "program": self._origin.program_text,
                **describe(kernel_parts(), "forms"),
            }
            self._made_of = None
        return self._key_and_metadata

    def _again(self) -> tuple[Sequence[KernelForm], str]:
        """Return the forms, and their text."""
        from jitfuse.ir.kernels.decoding import form_of

        forms = [form_of(data) for data in self.canonical.split(b"\0")]
        return forms, kernel_text(forms)

    def entry(self) -> Entry:
        """Return the entry of the object, which is compiled."""
        key, metadata = self.key_and_metadata()
        return Entry(key, {**metadata, "compile_ms": round(self.milliseconds, 3)}, self.canonical, self.code)


def kernel_text(forms: Sequence[KernelForm], most_lines: int | None = None) -> str:
    """Return the LLVM IR of kernel forms; the same in every process on this kind of machine.

    Raises KernelTooLargeError if a function would have more than `most_lines` lines.
    """
    from jitfuse.backends.llvm.codegen.kernel import emit_kernel
    from jitfuse.backends.llvm.jit import host_target
    from jitfuse.backends.llvm.text.builder import Module

    module = Module(most_lines)
    for k, form in enumerate(forms):
        emit_kernel(module, f"k{k}", form, host_target())
    return module.text()


def references(entry: Entry, key_of: Callable[[bytes], str]) -> Iterator[Entry]:
    """Yield references to the kernels of an object that has several.

    `key_of` returns the key that an object of one form would have where the object was made.
    """
    about = {name: entry.metadata.get(name) for name in ("function", "source", "created")}
    claimed = [name for name in about if name in (entry.metadata.get("claimed") or ())]
    if claimed:  # an archive alone vouches for them
        about["claimed"] = claimed
    forms = entry.canonical.split(b"\0")
    for k, form in enumerate(forms) if len(forms) > 1 else ():
        code = REFERENCE + marshal.dumps((entry.key, k), MARSHAL)
        yield Entry(key_of(form), {"kind": "reference", **about}, form, code)
