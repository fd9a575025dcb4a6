"""What a fused function tells of itself: explanations, reasons for new signatures, exported source."""
