"""The documents of the REST API as lines for a terminal. Pure."""
