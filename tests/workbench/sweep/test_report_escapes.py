"""Scripts and markup in every field of a sweep's results are text in its reports."""

import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import markdown
import numpy as np

from npuviz.workbench.sweep.plan import SweepRun
from npuviz.workbench.sweep.report import write_report
from npuviz.workbench.sweep.results import SweepResults

EVIL = (
    "</title></style></svg>\"'><script>alert({n})</script><img src=x onerror=alert({n})>"
    "[a](javascript:alert({n})) ![b](http://example.com/{n}) `c` *d* __e__ | f\n# g\n"
    "<iframe src=//x>&lt;b&gt;"
)
TAGS = {
    *("html", "meta", "title", "style", "h1", "h2", "h3", "p", "table", "tr", "th", "td", "ul", "li"),
    *("svg", "text", "circle", "line", "rect", "path", "g", "polyline"),
}


def evil(number: int) -> str:
    return EVIL.replace("{n}", str(number))


def results() -> SweepResults:
    """Four runs over two axes, one failed; each text of somebody is evil in its own way."""
    axes = ("model", evil(1), evil(2))
    points = tuple((f"/m/{evil(3)}", evil(4 + index % 2), evil(6 + index // 2)) for index in range(4))
    columns = {evil(10): np.array([1.0, 2, 3, 4]), evil(11): np.array([4.0, 3, 2, np.nan])}
    run = SweepRun(evil(12))
    return SweepResults(
        evil(13), axes, points, columns, {evil(10): "min", evil(11): "min"},
        ("done", "done", "done", "failed"), ("", "", "", evil(14)), ("a", "b", "c", "d"), (run,) * 4,
    )  # fmt: skip


class Reader(HTMLParser):
    """Counts tags and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: dict[str, set[str]] = {}
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes.setdefault(tag, set()).update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_has_no_tag_of_somebody_else(tmp_path: Path) -> None:
    write_report(results(), tmp_path / "r.html")
    found = Reader((tmp_path / "r.html").read_text())
    assert set(found.tags) <= TAGS
    assert not any(
        name.startswith("on") or name in ("src", "href")
        for each in found.attributes.values()
        for name in each
    )
    for number in (1, 2, 4, 6, 10, 11, 13, 14):
        assert f"<script>alert({number})</script>" in found.text
    harmless = replace(results(), name="plain")
    write_report(harmless, tmp_path / "s.html")
    assert Reader((tmp_path / "s.html").read_text()).tags == found.tags


def test_markdown_shows_its_own_figures_and_nothing_else(tmp_path: Path) -> None:
    write_report(results(), tmp_path / "r.md")
    page = markdown.markdown((tmp_path / "r.md").read_text(), extensions=["tables"])
    found = Reader(page)
    assert set(found.tags) <= {
        "h1",
        "h2",
        "h3",
        "p",
        "img",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "ul",
        "li",
    }
    assert found.tags["img"] == len(list(tmp_path.glob("*.svg"))) > 0
    assert found.tags["h1"] == 1
    assert "onerror" not in found.attributes["img"]
    rows = found.tags["tr"]
    assert (found.tags["th"] + found.tags["td"]) % rows == 0
    assert "<script>alert(13)</script>" in found.text


def test_figures_are_whole_and_hold_no_scripts(tmp_path: Path) -> None:
    write_report(results(), tmp_path / "r.md")
    figures = list(tmp_path.glob("*.svg"))
    assert figures
    for figure in figures:
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.parse(figure).iter()}
        assert tags <= TAGS
