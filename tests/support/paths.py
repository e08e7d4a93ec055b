"""Where the repository is, and the data beside it."""

from pathlib import Path

REPO = Path(__file__).parents[2]
SHARED = REPO.parent / "shared"
