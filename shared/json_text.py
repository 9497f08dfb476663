"""Names what msgspec raises for a text from outside that is not the JSON that was expected."""

from __future__ import annotations

import msgspec

JSON_ERRORS = (msgspec.DecodeError, UnicodeError, RecursionError)
"""Not JSON, or of another shape; not UTF-8; nested more deeply than the stack, which takes about
1,000 levels."""
