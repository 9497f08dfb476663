"""Programs that Ray's own interpreter runs: nothing here is imported by the project."""
