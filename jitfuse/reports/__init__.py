"""Reports of a fused function: explanations, reasons for new signatures, exported source."""
