"""The problems of GradBench as users of NumPy write them."""
