"""The plan hierarchy of operations over named axes: abstract plans, symbolic plans and their steps, runtime steps."""
