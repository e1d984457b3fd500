"""The pages of the documentation that come with npuviz."""

from dataclasses import dataclass
from pathlib import Path

from npuviz.workbench.resources import manual_path


@dataclass(frozen=True)
class Page:
    """One page; `folded` is its text in small letters, to search in."""

    path: Path
    title: str
    folded: str


def pages() -> list[Page]:
    """All pages by title, those for users and those for developers alike; () in a stripped installation."""
    found: list[Page] = []
    for path in sorted(manual_path().glob("*.md")):
        text = read_page(path)
        heading = next((line for line in text.splitlines() if line.startswith("# ")), f"# {path.stem}")
        found.append(Page(path, heading.removeprefix("# ").strip(), text.lower()))
    return sorted(found, key=lambda page: page.title.lower())


def read_page(path: Path) -> str:
    """The Markdown of a page, without what only a build of the site fills in; "" if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
    lines = text.splitlines()
    return "\n".join(line for line in lines if not (line.startswith("<!--") and line.endswith("-->")))
