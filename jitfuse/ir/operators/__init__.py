"""The op table: one file of rows per family of operators, imported when needed; read it through `ops`."""
