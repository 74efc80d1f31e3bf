"""For the site: CHANGELOG, CONTRIBUTING and SECURITY stand at the root of the repository, where they are looked for."""

from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ROOT_PAGES = {f"{stem.lower()}.md": ROOT / f"{stem}.md" for stem in ("CHANGELOG", "CONTRIBUTING", "SECURITY")}


def on_page_markdown(markdown: str, *, page: Any, **kwargs: Any) -> str:
    """Put the file at the root in the place of its page, with links as they are from there."""
    source = ROOT_PAGES.get(page.file.src_uri)
    return markdown if source is None else source.read_text("utf-8").replace("](docs/", "](")
