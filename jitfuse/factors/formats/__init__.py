"""Models from files and from other libraries, and back: UAI, BIF, pgmpy, networkx."""
