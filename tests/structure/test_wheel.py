"""The wheel holds what the program needs at run time."""

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from npuviz.base.kernels.sources import FOLDER
from npuviz.targets.wavelet.load.shipping import make

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    if subprocess.run([sys.executable, "-c", "import hatchling"], check=False).returncode:
        pytest.fail("hatchling is missing: pip install -e '.[dev]'")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    # To compile the kernels takes minutes: what is there already is in the wheel, and tables of a grammar.
    FOLDER.mkdir(exist_ok=True)
    make(FOLDER)
    subprocess.run(command, cwd=ROOT, env={**os.environ, "NPUVIZ_WITHOUT_KERNELS": "1"}, check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_resources_and_samples_are_in_the_wheel(names):
    files = {"resources": "_resources", "sample_models": "_sample_models", "docs": "_docs"}
    for source, place in files.items():
        wanted = {
            f"npuviz/{place}/{path.relative_to(ROOT / source)}"
            for path in (ROOT / source).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert wanted
        assert wanted - names == set()


def test_data_files_of_the_code_are_in_the_wheel(names):
    data = [path for path in (ROOT / "npuviz").rglob("*") if path.suffix in {".toml", ".json"}]
    assert data
    assert {str(path.relative_to(ROOT)) for path in data} - names == set()


def test_what_is_made_of_the_sources_is_in_the_wheel(names):
    made = {
        f"npuviz/_kernels/{path.name}" for path in FOLDER.iterdir() if path.suffix in (".code", ".tables")
    }
    assert any(name.endswith(".tables") for name in made)
    assert made - names == set()


def test_code_and_licence_are_in_the_wheel(names):
    assert "npuviz/cli/main.py" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith("tests/") or "__pycache__" in name]


def test_what_makes_the_code_needs_only_what_is_there_when_a_wheel_is_built():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hook = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["dependencies"]
    assert set(hook) <= set(project["project"]["dependencies"])
    program = (
        "import sys; from npuviz.base.kernels import shipping; shipping.kernels_to_ship();"
        "import npuviz.targets.wavelet.load.shipping;"
        "print(*{name.split('.')[0] for name, module in sys.modules.items()"
        " if 'site-packages' in (getattr(module, '__file__', None) or '')})"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    ours, there = (
        {each.partition("==")[0] for each in pins} for pins in (project["project"]["dependencies"], hook)
    )
    # numba imports what it can do without, too.
    assert ours & {*found.stdout.split()} == there
