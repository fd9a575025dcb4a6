"""From traces to native code: the pipeline and the planning; `interface` has what the rest of the package calls."""
