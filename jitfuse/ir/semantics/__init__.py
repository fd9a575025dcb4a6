"""What each operator means, in plain NumPy: the reference that every backend is compared with."""
