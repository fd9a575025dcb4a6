"""The intermediate representations: programs, the op table, the kernel form."""
