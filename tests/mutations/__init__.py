"""A judge that throws damaged and crafted inputs at the readers of jitfuse's formats; `__main__` runs it."""
