"""Objects of native code: made once, stored on disk under keys, described to users, rebuilt to be checked."""
