"""The thin shell around the rules: gather, decide, look again, act, and say why. Talks to ports only.

One module per question (`provision`, `collect`, `sweep`); none of them knows HTTP, environment or credentials.
"""
