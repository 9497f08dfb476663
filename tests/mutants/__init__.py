"""Breaks the product by one small change at a time, and says which tests notice."""
