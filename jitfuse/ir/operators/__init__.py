"""The op table: a file of rows for each family of operators, entered where one is asked for; read through `ops`."""
