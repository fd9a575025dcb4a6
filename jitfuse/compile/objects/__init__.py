"""Native code as objects: made once, kept on disk under keys, described to people, rebuilt to be checked."""
