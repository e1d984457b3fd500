"""Rules of the source tree that no other tool checks."""

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from npuviz.base import registry
from npuviz.base.collection import no_collection
from tests import order

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "npuviz"
FILE_LINES = 500
FOLDER_FILES = 25
FUNCTION_LINES = 60
KERNEL_LINES = 120
WINDOW_LINES = 250
ARGUMENTS = 5
LONG_CALLS = {
    # Threads share its state, and each says what it does.
    "npuviz/targets/wavelet/kernels/advance.py": {"advance"},
    # Columns, pixels and scratch are arrays, which cost counted references where they are read from a tuple:
    # sums over a track took twice as long so, merging its intervals a tenth longer (measured).
    "npuviz/export/perfetto_kernels.py": {"encode_slices"},
    "npuviz/trace/counter_kernels.py": {"sample_counter"},
    "npuviz/trace/pyramid_kernels.py": {
        "_covered_by_kind",
        "_fetch",
        "_sum_until",
        "dominant_kind",
        "extend_sums",
        "merge_intervals",
        "utilization",
    },
    "npuviz/trace/split_kernels.py": {"assign_keys", "scatter"},
    "npuviz/ui/fabric/grid_kernels.py": {
        "paint_arms",
        "paint_cells",
        "paint_dense",
        "paint_links",
    },
    "npuviz/ui/kit/raster_kernels.py": {"cumulate", "paint_counter", "paint_marks"},
    "npuviz/ui/timeline/track_kernels.py": {
        "_paint_edge",
        "_plan_crowd",
        "paint_cells",
        "paint_slices",
        "plan_slices",
    },
}
"""Kernels that take more arguments than others."""
DRAWERS = {"utils", "util", "common", "misc", "manager", "helpers"}


def sources(folder: Path = PACKAGE) -> list[Path]:
    found = sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)
    assert found
    return found


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def plugins(group: str) -> dict[str, str]:
    """Name -> module of the plug-ins that this project declares."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = {name: value.partition(":")[0] for name, value in project["entry-points"][group].items()}
    assert found
    return found


@dataclass(slots=True)
class Function:
    """Name, lines without the docstring (it may describe many arrays), and how many arguments beside self."""

    name: str
    lines: int
    arguments: int


@dataclass(slots=True)
class Contents:
    """What the rules ask of a file; the tree itself is forgotten, it is large."""

    is_documented: bool
    functions: list[Function] = field(default_factory=list[Function])


@cache
def contents(path: Path) -> Contents:
    """Read a file, once for all rules."""
    with no_collection():
        tree = ast.parse(path.read_text())
        return Contents(ast.get_docstring(tree, clean=False) is not None, functions_of(tree))


def functions_of(tree: ast.Module) -> list[Function]:
    """All functions, wherever they are; expressions, the most of a tree, have none and are not looked at."""
    found: list[Function] = []
    blocks: list[ast.AST] = [tree]
    while blocks:
        node = blocks.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(_function(node))
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inside = getattr(node, name, None)
            blocks.extend(inside if isinstance(inside, list) else ())
    return found


def strings_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and value of every string that is no docstring."""
    documents: set[int] = set()
    # Each level before the one below it: the statement that a docstring is comes before its text.
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            documents.add(id(node.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node.lineno, node.value


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Function:
    is_documented = ast.get_docstring(node, clean=False) is not None and len(node.body) > 1
    first = node.body[1] if is_documented else node.body[0]
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    lines = (node.end_lineno or node.lineno) - first.lineno + 1
    return Function(node.name, lines, len([each for each in given if each.arg != "self"]))


def is_kernel_file(path: Path) -> bool:
    return "kernels" in path.relative_to(PACKAGE).parts or path.stem.endswith("kernels")


def test_shared_code_names_no_target():
    ids = plugins(registry.TARGETS)
    shared = [path for path in sources() if "targets" not in path.relative_to(PACKAGE).parts]
    # Only what has the word is read closely.
    assert len(shared) > 100
    named = [path for path in shared if any(name in path.read_text() for name in ids)]
    found = [
        f"{name_of(path)}:{line}: {value!r}"
        for path in named
        for line, value in strings_of(path)
        if value in ids
    ]
    assert found == []


def test_files_are_short():
    long = {
        name_of(path): count
        for path in sources()
        if (count := len(path.read_text().splitlines())) > FILE_LINES
    }
    assert long == {}


def test_folders_show_few_files():
    """More than these ask for rooms."""
    folders = {path.parent for path in sources()}
    counts = {name_of(folder): len(list(folder.glob("*.py"))) for folder in folders}
    assert {name: count for name, count in counts.items() if count > FOLDER_FILES} == {}


def test_targets_have_the_same_rooms():
    rooms = ("load", "kernels", "machine", "view")
    missing = [
        f"{module}: {room}"
        for module in plugins(registry.TARGETS).values()
        for room in rooms
        if not (ROOT / Path(*module.split(".")).parent / room / "__init__.py").exists()
    ]
    assert missing == []


def test_functions_are_short():
    long = {
        f"{name_of(path)}: {each.name}": each.lines
        for path in sources()
        for each in contents(path).functions
        if each.lines > (KERNEL_LINES if is_kernel_file(path) else FUNCTION_LINES)
    }
    assert long == {}


def test_kernels_take_rows():
    """What goes together is one row or named tuple: more than five arguments are too many to tell apart.

    A `_plain_` twin has those of its kernel.
    """
    long: dict[str, set[str]] = {}
    for path in filter(is_kernel_file, sources()):
        for each in contents(path).functions:
            if each.arguments > ARGUMENTS and not each.name.startswith("_plain_"):
                long.setdefault(name_of(path), set()).add(each.name)
    assert long == LONG_CALLS


def test_the_main_window_stays_small():
    assert len((PACKAGE / "ui" / "shell" / "main_window.py").read_text().splitlines()) <= WINDOW_LINES


def test_files_are_named_after_subjects():
    assert [name_of(path) for path in sources() if path.stem in DRAWERS] == []


def test_every_package_says_what_it_is():
    silent = [
        name_of(path) for path in sources() if path.name == "__init__.py" and not contents(path).is_documented
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("group", "page"),
    [
        (registry.TARGETS, "adding-a-target.md"),
        (registry.EXPORTERS, "adding-an-exporter.md"),
        (registry.PANELS, "adding-a-panel.md"),
    ],
)
def test_every_plug_in_is_named_in_its_page(group, page):
    text = (ROOT / "docs" / page).read_text()
    assert [name for name in plugins(group) if f"`{name}`" not in text] == []


def test_every_format_is_named_in_its_page():
    text = (ROOT / "docs" / "adding-a-format.md").read_text()
    folder = PACKAGE / "formats"
    formats = {path.stem for path in folder.glob("[a-z]*.py")} | {
        path.parent.relative_to(folder).parts[0] for path in folder.glob("*/__init__.py")
    }
    assert {"binary", "neff", "rk3588"} <= formats
    assert [name for name in sorted(formats) if f"`{name}`" not in text] == []


@pytest.mark.parametrize("group", [registry.TARGETS, registry.EXPORTERS, registry.PANELS])
def test_declared_plug_ins_are_installed_and_load(group):
    installed = {entry.name: entry for entry in entry_points(group=group)}
    for name in plugins(group):
        assert installed[name].load() is not None


def test_every_test_folder_is_a_package():
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_every_layer_is_in_the_architecture_page():
    text = (ROOT / "docs" / "architecture.md").read_text()
    missing = [
        path.name
        for path in PACKAGE.iterdir()
        if (path / "__init__.py").exists() and f"`npuviz/{path.name}`" not in text
    ]
    assert missing == []


class _Item:
    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid


def test_long_files_are_there_and_come_before_short_ones():
    assert [name for name in order.SECONDS if not (ROOT / name).is_file()] == []
    long = max(order.SECONDS, key=lambda name: order.SECONDS[name])
    ids = ["a.py::x", "a.py::y", f"{long}::1", f"{long}::2", *(f"many.py::{k}" for k in range(200))]
    found = [item.nodeid for item in order.by_length([_Item(name) for name in ids])]
    assert found == [*ids[4:], *ids[2:4], *ids[:2]]
