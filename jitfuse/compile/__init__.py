"""From traces to native code: the pipeline and the planning; `interface` is what the rest of the package uses."""
