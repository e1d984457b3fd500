import pytest

from npuviz.base.errors import FormatError, UsageError
from npuviz.base.progress import NoProgress
from npuviz.targets.wavelet.host import coverage
from npuviz.targets.wavelet.load.loader import (
    ScriptRun,
    accepts,
    accepts_folder,
    arch_of,
    compile_options,
    open_program,
    run_script,
    scripts_to_run,
)


def folder_with(tmp_path, **scripts):
    folder = tmp_path / "programs" / "one"
    folder.mkdir(parents=True)
    for name, text in scripts.items():
        (folder / f"{name}.sh").write_text(text)
    return folder


def test_what_is_taken(tmp_path):
    folder = folder_with(tmp_path, commands_wse3="true")
    assert accepts_folder(folder)
    assert not accepts_folder(tmp_path)
    assert accepts(tmp_path / "layout.csl", b"")
    assert not accepts(tmp_path / "model.onnx", b"")


def test_scripts_of_any_name_that_call_both_tools_are_taken(tmp_path):
    both = "cslc layout.csl -o out && ${CS_PYTHON} run.py"
    folder = folder_with(tmp_path, bench=both, run=both, clean="rm -rf out", only="cslc layout.csl")
    assert not accepts_folder(folder)
    (folder / "layout.csl").touch()
    assert accepts_folder(folder)
    assert [script.name for script in scripts_to_run(folder)] == ["bench.sh", "run.sh"]
    with pytest.raises(UsageError, match=r"/run\.sh: compiled nothing"):
        open_program(folder, {}, NoProgress())
    (folder / "commands.sh").write_text("true")
    assert [script.name for script in scripts_to_run(folder)] == ["commands.sh"]


def test_a_script_runs_in_a_copy_with_its_neighbours(tmp_path):
    folder = folder_with(tmp_path, commands_wse3="cat ../shared/text; touch mark; command -v cslc; exit 3")
    (folder.parent / "shared").mkdir()
    (folder.parent / "shared" / "text").write_text("from beside\n")
    ran = run_script(folder / "commands_wse3.sh", tmp_path / "scratch", 60)
    assert ran.code == 3
    assert ran.output.startswith("from beside\n")
    assert ran.reason() == str(tmp_path / "scratch" / "shims" / "cslc")
    assert (ran.folder / "mark").exists()
    assert not (folder / "mark").exists()


def test_a_host_that_raises_is_told_with_its_line(tmp_path):
    folder = folder_with(tmp_path, commands="cs_python run.py || exit 1", other="cslc x.csl -arch=wse3")
    (folder / "run.py").write_text("def check(x):\n  raise ValueError(f'found {x}')\n\ncheck(4)\n")
    ran = run_script(folder / "commands.sh", tmp_path / "scratch", 60)
    assert (ran.code, ran.reason()) == (1, "run.py:2: ValueError: found 4")
    assert arch_of(folder / "other.sh") == "wse3"


def test_a_script_finds_what_lies_above_it_in_its_repository(tmp_path):
    root = tmp_path / "repository"
    folder = root / "spikes" / "deep" / "one"
    folder.mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "helpers").mkdir()
    (root / "helpers" / "text").write_text("from above\n")
    (tmp_path / "elsewhere").mkdir()
    (folder / "commands.sh").write_text("cat ../../../helpers/text; ls -A ../../.. ../../../..")
    ran = run_script(folder / "commands.sh", tmp_path / "scratch", 60)
    assert ran.output.startswith("from above\n")
    assert "elsewhere" not in ran.output
    assert ".git" not in ran.output


def test_tools_are_found_by_paths_and_variables_of_the_author(tmp_path):
    here = tmp_path / "cslc"
    here.write_text("#!/bin/sh\necho own $0\n")
    here.chmod(0o755)
    lines = ["/home/nobody-here/tools/cslc --version", '"${CS_PYTHON}" -c "print(7)"', f"{here}"]
    folder = folder_with(tmp_path, commands="\n".join(lines))
    ran = run_script(folder / "commands.sh", tmp_path / "scratch", 60)
    first, second, third = ran.output.splitlines()
    assert "No such file" not in first
    assert (second, third) == ("7", f"own {here}")


def test_a_script_that_does_not_end_is_ended(tmp_path):
    folder = folder_with(tmp_path, commands_wse3="echo begun; sleep 1000 & sleep 1000")
    ran = run_script(folder / "commands_wse3.sh", tmp_path / "scratch", 0.5)
    assert ran.code is None
    assert ran.output == "begun\n"


def test_a_folder_whose_script_compiles_nothing(tmp_path):
    folder = folder_with(tmp_path, commands_wse3="echo sorry; exit 1")
    with pytest.raises(UsageError, match="compiled nothing; sorry"):
        open_program(folder, {}, NoProgress())


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"arch": "wse2"}, "no commands_wse2.sh; found commands_wse3.sh"),
        ({"params.M": "4"}, "own script"),
        ({"script": "other.sh"}, "no other.sh"),
    ],
)
def test_settings_that_a_folder_cannot_follow(tmp_path, settings, text):
    folder = folder_with(tmp_path, commands_wse3="true")
    with pytest.raises(UsageError, match=text):
        open_program(folder, settings, NoProgress())


def test_a_folder_with_neither(tmp_path):
    with pytest.raises(FormatError, match="compiled program"):
        open_program(tmp_path, {}, NoProgress())


def test_settings_for_the_compiler(tmp_path):
    options = compile_options(
        tmp_path / "layout.csl",
        {"arch": "wse2", "params": "M:4,N:6", "params.K": "7", "fabric-dims": "8,3", "hop": "1"},
    )
    assert options.arch == "wse2"
    assert options.params == {"M": 4, "N": 6, "K": 7}
    assert options.fabric == (8, 3)


@pytest.mark.parametrize(
    ("code", "output", "kind", "detail"),
    [
        (0, "SUCCESS!\n", coverage.PASS, ""),
        (None, "step 1\n", coverage.TIMEOUT, "step 1"),
        (1, "Traceback\nAssertionError: 4 != 5\n", coverage.WRONG, "AssertionError: 4 != 5"),
        (
            2,
            "cslc: error: pe.csl:3:5: x is unsupported\n",
            coverage.UNSUPPORTED,
            "pe.csl:3:5: x is unsupported",
        ),
        (2, "cslc: error: pe.csl:3:5: bad type\n", coverage.FAILED, "pe.csl:3:5: bad type"),
        (1, "DeviceError: deadlock at cycle 5\n", coverage.FAILED, "DeviceError: deadlock at cycle 5"),
    ],
)
def test_outcomes(tmp_path, code, output, kind, detail):
    assert coverage.judge(ScriptRun(tmp_path, code, output)) == (kind, detail)


def test_a_host_that_failed_counts_though_its_script_went_on(tmp_path):
    ran = ScriptRun(tmp_path, 0, "AssertionError: 4\nbye\n", ("run.py:3: AssertionError: 4",))
    assert coverage.judge(ran) == (coverage.WRONG, "run.py:3: AssertionError: 4")


def test_coverage_tries_every_script_and_writes_a_table(tmp_path, capsys):
    folder = folder_with(tmp_path, commands_wse2="exit 0", commands_wse3="echo AssertionError; exit 1")
    report = tmp_path / "report.md"
    assert coverage.run([str(folder.parent), "--report", str(report)]) == 1
    assert capsys.readouterr().out.count("\n") == 2
    text = report.read_text()
    assert "1 of 2 pass." in text
    assert "| one | wse2 | pass |" in text
    assert "| one | wse3 | wrong |" in text
