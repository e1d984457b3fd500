"""Texts of instructions name registers that there are."""

from npuviz.targets.wavelet.view.disassembly import instruction_text
from tests.targets.wavelet.samples import heat, row_sum


def test_what_gives_nothing_names_no_register() -> None:
    texts: list[str] = []
    for wafer in (heat().wafer, row_sum().wafer):
        for program in wafer.programs:
            texts += [instruction_text(row, program.functions, program.operations) for row in program.code]
    assert "sys unblock_commands" in texts
    assert not [text for text in texts if "r-" in text]
