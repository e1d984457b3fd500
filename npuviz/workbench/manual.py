"""Reads the pages of the documentation that ship with npuviz."""

from dataclasses import dataclass
from pathlib import Path

from npuviz.workbench.resources import manual_path


@dataclass(frozen=True)
class Page:
    """One page; `folded` is its text in lower case, to search in."""

    path: Path
    title: str
    folded: str


def pages() -> list[Page]:
    """Return all pages, for users and developers, sorted by title; none in a stripped installation."""
    found: list[Page] = []
    for path in sorted(manual_path().glob("*.md")):
        text = read_page(path)
        heading = next((line for line in text.splitlines() if line.startswith("# ")), f"# {path.stem}")
        found.append(Page(path, heading.removeprefix("# ").strip(), text.lower()))
    return sorted(found, key=lambda page: page.title.lower())


def read_page(path: Path) -> str:
    """Read the Markdown of a page, without lines of placeholders that a site build fills; "" if
    unreadable."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
    lines = text.splitlines()
    return "\n".join(line for line in lines if not (line.startswith("<!--") and line.endswith("-->")))
