"""Rules of dtypes and shapes: the metas of operators' results."""
