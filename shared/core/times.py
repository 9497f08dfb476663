"""Moments as Kubernetes writes them and as rules count them: RFC 3339 texts and unix seconds. Reads no clock."""

from __future__ import annotations

from datetime import UTC, datetime


def parse_time(text: str | None) -> float | None:
    """Return the unix seconds of an RFC 3339 time; None when there is none or it cannot be read."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def format_time(seconds: float | None) -> str:
    """Return unix seconds as Kubernetes writes them, whole and in UTC; empty for None."""
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
