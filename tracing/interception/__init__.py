"""The tracing environment: what a fused function reads from outside of its arguments is intercepted and guarded.

`TracingEnvironment(hooks)` is the environment of one trace. Pass arguments through its `read`, call its `run`, then
its `commit` (or `rollback` where the function runs again). Its `guard_log` has what the trace depends on. The function
`run` of `reader` does it all in one call. The tracer takes part through `hooks.Hooks`; nothing here knows about traced
tensors.

While the trace runs, the ``__code__`` of the decorated function, and of every user function that it reaches, is
exchanged for rewritten code (`swap`, `bytecode`). So line numbers, closures, ``super()``, ``locals()``, generators and
exceptions are Python's own, and functions keep their identity. Installed code runs as it is if it is known (`known`):
what it reads and writes is nothing beyond its arguments. Everything else is opaque, and the function that calls or
reads it runs as plain Python. What is known is listed, so that what nobody has thought of is opaque.

| what the function uses | how it is treated |
|---|---|
| globals, builtins, closure cells, local imports, ``from m import x`` | guarded |
| attributes of modules, user classes, instances (``__slots__``, properties, ``__getattr__``, descriptors) | guarded |
| items of dict, list, tuple and their subclasses, however they are read; nested ones too | guarded |
| functions, methods, lambdas, partials, callables, decorated helpers; their code and defaults | guarded |
| operators and other special methods of user classes, also when C code calls them | guarded |
| ``getattr hasattr setattr vars globals``, eval, exec, copy.copy, attrgetter, dataclasses.replace/asdict | guarded |
| an attribute or key that is absent | guarded |
| new values of globals, cells, attributes, items of dicts and lists | calls bind them (`rebinding`) |
| other objects bound there | written for real, and guarded; read and changed, or new: Python runs at each call |
| lists that grow, keys that go, sets and deques that change | Python runs at each call |
| what the tracer substitutes (np.random, random, clocks) | raises, by the tracer's stubs: Python runs at each call |
| containers of more than 2,000 plain items; sets, deques, array.array | guarded: compared with a copy |
| immutable objects of the standard library (dates, fractions, paths, patterns), enumerations | guarded by identity |
| NumPy scalars that are no numbers (dates, records, text) | guarded: compared with a copy |
| known functions of Python's standard library, NumPy, SciPy and torch | called |
| other objects and callables of installed code; files, environment, clocks; lru_cache | opaque: plain Python |
| user objects whose class derives from an opaque one | opaque: plain Python |
| iterators, generators and open files that exist before the call | Python runs at each call |
| a class attribute added later under a name that was absent; sys.modules, other threads | frozen |
| what ``str`` and ``==`` read of a SimpleNamespace or argparse.Namespace by themselves | frozen |
"""
