"""The pages name what the program has."""

import re
import runpy
import tomllib
from functools import reduce
from importlib import import_module
from pathlib import Path

from npuviz.cli.main import SUBCOMMANDS
from npuviz.debug.console.commands import BY_WORD
from npuviz.targets.systolic.compiler.operators.families import LOWERINGS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_every_subcommand_is_documented():
    text = (DOCS / "command-line.md").read_text()
    assert [name for name in SUBCOMMANDS if not re.search(rf"^npuviz \[?{name}\b", text, re.MULTILINE)] == []


def test_every_command_of_the_text_debugger_is_documented():
    text = (DOCS / "command-line.md").read_text()
    # Only the first word of each usage: the others are synonyms.
    words = {command.usage.split()[0] for command in BY_WORD.values()}
    assert len(words) > 15
    assert [word for word in sorted(words) if f"`{word}" not in text] == []


def test_links_of_the_readme_exist():
    for page in ("README.md", "CONTRIBUTING.md"):
        links = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text())
        local = [link for link in links if not link.startswith("http")]
        assert local
        assert [link for link in local if not (ROOT / link).exists()] == []


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert [page.name for page in DOCS.glob("*.md") if page.name not in navigation] == []


def test_the_picture_of_the_layers_is_the_contract():
    text = (DOCS / "architecture.md").read_text()
    picture = text.partition("## Who may import whom")[2].split("```")[1].strip().splitlines()
    drawn = [re.split(r"\s{2,}", line)[0] for line in picture]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert drawn == contracts[0]["layers"]


def test_a_page_shows_the_layout_of_every_record():
    text = (DOCS / "records.md").read_text()
    files = [
        path.relative_to(ROOT) for path in (ROOT / "npuviz").rglob("*.py") if " = Record(" in path.read_text()
    ]
    assert files
    packages = [name.replace(".", "/") for name in re.findall(r"<!-- records: (\S+) -->", text)]
    assert [file for file in files if not any(file.is_relative_to(package) for package in packages)] == []


def test_every_word_of_a_record_is_explained():
    hooks = runpy.run_path(str(DOCS / "hooks.py"))
    packages = re.findall(r"<!-- records: (\S+) -->", (DOCS / "records.md").read_text())
    assert len(packages) > 4
    silent = [
        f"{record.title}.{field.name}"
        for package in packages
        for record in hooks["records_of"](package)
        for field in record.fields.values()
        if not field.doc
    ]
    assert silent == []


def test_every_deviation_is_in_the_table():
    text = (DOCS / "systolic.md").read_text()
    assert [number for number in range(1, 29) if f"| F{number} |" not in text] == []


def test_every_lowered_operator_is_listed():
    text = (DOCS / "systolic.md").read_text()
    assert LOWERINGS
    assert [name for name in LOWERINGS if f"`{name}`" not in text] == []


def test_the_functions_of_the_tour_exist():
    names = re.findall(r"`(npuviz[\w.]+):([\w.]+)`", (DOCS / "tour.md").read_text())
    assert len(names) >= 8
    for module, name in names:
        assert callable(reduce(getattr, name.split("."), import_module(module))), f"{module}:{name}"


def test_the_files_of_the_example_target_are_in_its_page():
    example = ROOT / "examples" / "toychip" / "toychip"
    files = [str(path.relative_to(example)) for path in example.rglob("*.py") if path.name != "__init__.py"]
    assert files
    text = (DOCS / "adding-a-target.md").read_text()
    assert [file for file in files if f"`{file}`" not in text] == []


def test_every_protocol_that_a_target_may_offer_is_listed():
    text = (DOCS / "adding-a-target.md").read_text()
    files = [path for folder in ("sim", "program") for path in (ROOT / "npuviz" / folder).rglob("*.py")]
    names = [
        name for file in files for name in re.findall(r"@runtime_checkable\nclass (\w+)\(", file.read_text())
    ]
    assert len(names) > 20
    # What a still or a fabric is made of, or a recorded run has, and no choice of a target's.
    parts = {"StillMemories", "HasTurns"}
    assert [name for name in names if name not in parts and f"`{name}`" not in text] == []
