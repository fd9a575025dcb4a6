"""Decompositions of composite operators into simpler ones, over AbstractTensor methods."""
