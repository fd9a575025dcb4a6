"""The runtime of this process: one native object with the thread pool, the allocator and the call path.

Owns: which emitters make the object, building or loading it once, which symbols it may take from the process, its
set-up (threads, fork handlers, NumPy's handler capsule). Does not own the parts (pool.py, memory.py, fastcall.py),
nor the cache, which is passed in through `set_loader`.
"""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from jitfuse.backends.llvm.load.process import c_function, process_address, process_lock
from jitfuse.backends.llvm.loader import Library, load
from jitfuse.backends.llvm.runtime.layout import (
    ERROR_STATE_ACCEPTED,
    MEMORY_HANDLER,
    MEMORY_HANDLER_NAME,
    MEMORY_STATISTICS,
)
from jitfuse.backends.llvm.runtime.threads import asked_threads, thread_count
from jitfuse.backends.llvm.runtime.words import ABI, configuration, error_state
from jitfuse.backends.llvm.target import machine_identity
from jitfuse.errors import CompileError

LEVEL = 0
"""Code generation level of the runtime: level 1 takes three times as long to make calls a tenth faster."""

C_SYMBOLS = frozenset({
    "clock_gettime", "free", "madvise", "memcmp", "memcpy", "memmove", "memset", "mmap", "munmap", "posix_memalign",
    "pthread_attr_destroy", "pthread_attr_init", "pthread_attr_setdetachstate", "pthread_create",
    "pthread_getaffinity_np", "pthread_setaffinity_np", "pthread_sigmask", "sched_getcpu", "sched_yield", "sigfillset",
    "syscall",
})
"""The symbols that the runtime may take from the C library, beside those that CPython exports."""

Link: TypeAlias = Callable[[bytes], Library]
Loader: TypeAlias = Callable[[str, Callable[[], str], Mapping[str, str | int], Link], Library]
"""(name, function that makes the text, key parts, function that loads object code) -> the loaded object, compiled
at level ``key_parts["level"]`` or cached. The loader compiles again where a cached object cannot be loaded."""


def _compile_directly(
    name: str, make_text: Callable[[], str], key_parts: Mapping[str, str | int], link: Link
) -> Library:
    from jitfuse.backends.llvm.jit import compile_text

    return link(compile_text(make_text(), level=int(key_parts["level"])))


_loader: Loader = _compile_directly
_runtime: Runtime | None = None
_parallel = False
"""Whether a plan of this process has launches for several threads."""


def set_loader(loader: Loader) -> None:
    """Get the runtime's object code from `loader`; without effect once the runtime exists."""
    global _loader
    _loader = loader


def runtime() -> Runtime:
    """Return this process's runtime, made on the first call; CompileError where it cannot have one."""
    global _runtime
    if _runtime is None:
        with process_lock:
            if _runtime is None:
                _runtime = made = Runtime(_load())
                if _parallel:  # read only now: `expect_threads` writes and reads the two in the other order
                    made.count_threads()
    return _runtime


def expect_threads() -> None:
    """Record that a plan has launches for several threads; the first such plan counts the usable threads.

    They are not counted earlier, because reading the control groups' files takes a thirtieth of a first call.
    """
    global _parallel
    if not _parallel:
        _parallel = True
        if _runtime is not None:
            _runtime.count_threads()


def runtime_text() -> str:
    """Return the runtime as LLVM assembly; the same in every process on this kind of machine."""
    # a process that finds the object in the cache never needs the emitters
    from jitfuse.backends.llvm.runtime.batch import emit_batch
    from jitfuse.backends.llvm.runtime.fastcall import emit_call_path
    from jitfuse.backends.llvm.runtime.memory import emit_memory
    from jitfuse.backends.llvm.runtime.pool import emit_pool
    from jitfuse.backends.llvm.text.builder import Module

    module = Module()
    for emit in (emit_pool, emit_memory, emit_batch, emit_call_path):
        emit(module)
    return module.text()


class _Imports:
    """The symbols that the runtime may take from the process."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in C_SYMBOLS or name.startswith(("Py", "_Py")))


IMPORTS = _Imports()


def loaded() -> bool:
    """Return whether this process has its runtime."""
    return _runtime is not None


def key_parts() -> dict[str, str | int]:
    """Return the key parts of the runtime's object, beside jitfuse's sources."""
    return {"level": LEVEL, "machine": " ".join(machine_identity()), "abi": ABI}


def _load() -> Library:
    return _loader("runtime", runtime_text, key_parts(), lambda code: load(code, allowed=IMPORTS))


class Runtime:
    """The loaded runtime. It is never unloaded: results freed by its code may outlive everything else."""

    def __init__(self, library: Library) -> None:
        self._library = library
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
        _survive_forks(library)
        self._threads_set = False
        asked = asked_threads()
        if asked is not None:
            self.set_threads(asked)
        pointer = ctypes.c_void_p
        new_capsule = c_function(process_address("PyCapsule_New"), ctypes.py_object, pointer, pointer, pointer)
        self.memory_handler: object = new_capsule(self.address(MEMORY_HANDLER), self.address(MEMORY_HANDLER_NAME), None)
        """The capsule for the ``mem_handler`` field of arrays whose data comes from `jf_alloc`."""
        words = configuration(self.memory_handler)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(words))
        c_function(self.address("jf_configure"), None, pointer)(words.address)
        self.accept_error_state()

    def address(self, name: str) -> int:
        """Return the address of one of the runtime's functions or globals."""
        return self._library.address(name)

    def function(self, name: str, result: Any, *arguments: Any) -> Any:
        """Return one of the runtime's functions as a ctypes function that releases the GIL."""
        return ctypes.CFUNCTYPE(result, *arguments)(self.address(name))

    def accept_error_state(self) -> None:
        """Let calls run natively under the current `np.errstate`; under any other they go to Python first."""
        # held, so that no other object gets its address
        self._error_state = error_state().get()
        ctypes.c_void_p.from_address(self.address(ERROR_STATE_ACCEPTED)).value = id(self._error_state)

    @property
    def accepts_error_state(self) -> bool:
        """Whether calls run natively under the current `np.errstate`."""
        return self._error_state is error_state().get()

    # ------------------------------------------------------------------ threads
    @property
    def threads(self) -> int:
        """How many threads a launch may use, its caller included."""
        self.count_threads()
        return int(self.function("jf_pool_threads", ctypes.c_int64)())

    def count_threads(self) -> None:
        """Let launches use as many threads as the process may use, unless a number was set."""
        if not self._threads_set:
            self.set_threads(thread_count())

    def set_threads(self, threads: int) -> None:
        """Let launches use this many threads from now on; existing workers beyond that sleep."""
        self._threads_set = True
        c_function(self.address("jf_pool_configure"), None, ctypes.c_int64)(threads)

    # ------------------------------------------------------------------ memory
    def memory_statistics(self) -> dict[str, int]:
        """Return bytes in use, bytes cached for reuse, numbers of allocations and reuses, and the limit."""
        words = (ctypes.c_int64 * len(MEMORY_STATISTICS))()
        self.function("jf_memory_stats", None, ctypes.c_void_p)(ctypes.addressof(words))
        return dict(zip(MEMORY_STATISTICS, words))

    def set_memory_limit(self, bytes_: int) -> None:
        """Cache at most this many bytes of free buffers; bytes beyond the limit go back at once."""
        ctypes.c_int64.from_address(self.address("jf_memory_limit")).value = bytes_
        self.trim_memory(bytes_)

    def trim_memory(self, keep: int = 0) -> None:
        """Give free buffers back to the system until at most `keep` bytes of them are left."""
        self.function("jf_memory_trim", None, ctypes.c_int64)(keep)


def _survive_forks(library: Library) -> None:
    """Register the runtime's fork handlers with the C library, so that forks outside Python call them too.

    glibc's shared library lacks pthread_atfork; the function behind it takes one argument more.
    """
    address = ctypes.c_void_p
    try:
        register, extra = process_address("__register_atfork"), 1
    except CompileError:
        register, extra = process_address("pthread_atfork"), 0
    function = c_function(register, ctypes.c_int, *[address] * (3 + extra))
    before, after = library.address("jf_memory_before_fork"), library.address("jf_memory_after_fork")
    for handlers in ((before, after, after), (None, None, library.address("jf_pool_after_fork"))):
        if function(*handlers, *[None] * extra):
            raise CompileError("no memory for fork handlers")
