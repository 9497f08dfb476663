"""Tests of the command as a package: the contents of the wheel, and its run elsewhere."""
