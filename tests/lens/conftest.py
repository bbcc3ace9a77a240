"""The lens's own helpers, found by name beside its tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
