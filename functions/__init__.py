"""The Cloud Functions: parse, call, answer; nothing else. Not imported by exporter, CLI or `shared`."""
