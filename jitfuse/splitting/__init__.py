"""Programs that are split where Python looks at traced data: see docs/graph-breaks.md."""
