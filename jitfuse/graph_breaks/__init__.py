"""Programs that break where Python reads traced values: the tree of subgraphs, its native table, its budget."""
