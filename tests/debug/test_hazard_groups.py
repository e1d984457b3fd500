"""Hazards of many units at one line are one with a count."""

from npuviz.debug.hazard_groups import group_hazards
from npuviz.sim.machine import Hazard


def hazard(cycle: int, unit: str, line: str, kind: str = "queue-busy", instruction: int = 3) -> Hazard:
    text = f"{line}{unit}: input queue {cycle} is read by two live operations"
    return Hazard(cycle, unit, instruction, kind, text)


def test_units_at_one_line_are_merged_and_other_lines_are_not() -> None:
    found = [hazard(n, f"PE({n % 4},0)", "pe.csl:12: ", instruction=n) for n in range(8)]
    found += [hazard(9, "PE(0,0)", "pe.csl:13: "), hazard(9, "PE(0,0)", "pe.csl:12: ", "words-left")]
    groups = group_hazards(found)
    assert [(g.count, g.units, g.first.cycle, g.last) for g in groups] == [
        (8, 4, 0, 7), (1, 1, 9, 9), (1, 1, 9, 9),
    ]  # fmt: skip
    assert groups[0].text.endswith("(8 times at 4 units, to cycle 7)")


def test_without_a_line_an_instruction_or_the_sentence_decides() -> None:
    found = [hazard(0, "PE(0,0)", "", instruction=3), hazard(1, "PE(1,0)", "", instruction=4)]
    assert len(group_hazards(found)) == 2
    same = [Hazard(n, "", -1, "k", "one") for n in range(2)] + [Hazard(2, "", -1, "k", "other")]
    assert [g.count for g in group_hazards(same)] == [2, 1]
