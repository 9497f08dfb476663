"""Inputs that no well-behaved neighbour sends, at every border of the product."""
