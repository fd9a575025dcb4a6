"""Loading object code without LLVM: reading objects, linking them into images."""
