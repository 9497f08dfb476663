"""``python -m exporter``."""

from __future__ import annotations

import sys

from exporter.main import main

if __name__ == "__main__":
    sys.exit(main())
