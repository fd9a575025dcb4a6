"""From the kernel form to LLVM text.

`kernel.emit_kernel` writes a form as a function. `layout` tells a caller of that function how many units a launch
has, how much scratch memory a thread needs, and roughly how long it takes; importing it loads no module that
writes code. Does not own the compilation of the text (`jitfuse.backends.llvm.jit`) or launches
(`jitfuse.backends.llvm.runtime`).
"""
