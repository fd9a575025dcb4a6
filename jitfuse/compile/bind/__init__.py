"""Call plans and their kernels as tables of the native call path."""
