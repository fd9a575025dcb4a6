"""The traced array: memory and views, operators, indices, other values lifted to one."""
