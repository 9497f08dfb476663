"""The rules, pure: no I/O, no clock, no randomness, no environment, no logging, no third-party package.

What belongs here can be tested by calling it. It may be imported by everything that is deployed and by the
stand-ins' callers; it imports only itself and a few pure standard modules (import-linter says which).
"""
