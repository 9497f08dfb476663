"""How the engine is entered: a message, the end of an operation, the sweep."""
