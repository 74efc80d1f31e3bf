"""Pictures of the page that tests make; kept where FLINKBUF_SCREENSHOTS says, for the documentation."""

from __future__ import annotations

import os
from pathlib import Path

from support.pages.chromium import Page

KEPT = os.environ.get("FLINKBUF_SCREENSHOTS")
SIZE_MAX = 80_000  # bytes of each
FADING = "new Promise((resolve) => setTimeout(resolve, 450))"  # until colours have faded over


def shoot(
    page: Page, name: str, directory: Path, *, height: int | None = None, is_whole: bool = True, scale: float = 0.7
) -> Path:
    """Take one, small enough to be read in a guide."""
    page.run(FADING)
    path = page.screenshot(Path(KEPT or directory) / f"{name}.webp", is_whole=is_whole, scale=scale, height=height)
    assert 4_000 < path.stat().st_size < SIZE_MAX, f"{path} has {path.stat().st_size} bytes"
    return path
