"""The Cloud Functions: parse, call, answer. Exporter, CLI and `shared` do not import them."""
