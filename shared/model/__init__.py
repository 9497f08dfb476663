"""Values of the product, without I/O."""
