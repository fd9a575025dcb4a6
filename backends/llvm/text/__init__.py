"""LLVM's language as text: types, instructions, and the builder that writes functions and modules."""
