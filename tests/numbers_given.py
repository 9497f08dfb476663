"""Numbers in the arguments of the programs that a person runs on the tests."""

import argparse
import re


def parse_count(text: str) -> int:
    """Return a whole number of 1 or more."""
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise argparse.ArgumentTypeError(f"is not valid (got {text!r}); valid: a whole number from 1")
    return int(text)
