"""Loops whose iterations are independent, computed as further axes of arrays."""
