"""The rules, a file for each family of operators, imported when one of its operators is differentiated."""
