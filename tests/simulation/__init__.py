"""Runs the real shell on in-memory ports in virtual time, under faults, and judges what it did."""
