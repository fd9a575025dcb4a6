"""How composite operators are written in simpler ones, over AbstractTensor methods."""
