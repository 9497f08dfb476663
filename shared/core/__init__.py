"""The rules, pure: no I/O, clock, randomness, environment, logging or third-party package.

Everything here can be tested by a call. It imports only itself and a few pure standard modules; the
import contracts in `pyproject.toml` list them.
"""
