"""What is delivered: the wheel, the functions' bundle, and the exporter's files as text."""
