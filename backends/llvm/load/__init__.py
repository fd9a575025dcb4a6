"""Object code loaded into memory that runs, without LLVM: read, linked into images, bound to this machine."""
