"""The records that the functions logged, read from Cloud Logging."""
