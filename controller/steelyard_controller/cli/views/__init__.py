"""How the documents of the REST API look in a terminal: documents in, lines out. Pure."""
