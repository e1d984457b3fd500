"""Joined conditions against plain Python over every cycle of a run, forwards, backwards and in pieces."""

from collections.abc import Callable

import pytest

from npuviz.base.errors import ConditionError
from npuviz.base.progress import NoProgress
from npuviz.debug.assertion import Assertions
from npuviz.debug.condition.language import complete, parse_expression
from npuviz.debug.console.commands import answer_of
from npuviz.debug.session import Session
from npuviz.sim.stop import StopKind
from tests.debug.test_session import END, hits_backward, hits_forward
from tests.toy.session import make_session

Truth = Callable[[int], bool]


class Straight:
    """What every cycle of the run was, looked at one by one."""

    def __init__(self) -> None:
        session = make_session(records=False)
        queue = next(q for q in session.description.queues if q.name == "Core[0].ALU")
        self.level: list[int] = []
        self.busy: list[int] = []
        for cycle in range(END + 1):
            session.go_to(cycle)
            self.level.append(len(session.machine.queue_entries(queue.id)))
            self.busy.append(int(session.read("Core[0].busy")[1]))

    def event(self, text: str) -> Truth:
        session = make_session(records=False)
        session.breakpoints.add(text)
        cycles = {cycle for cycle, _ in hits_forward(session)}
        assert cycles
        return cycles.__contains__


@pytest.fixture(scope="module")
def straight() -> Straight:
    return Straight()


def check(text: str, holds: Truth, event: Truth = lambda cycle: False) -> None:
    """Hits where `holds` becomes true, and wherever it holds with the event."""
    wanted = [c for c in range(1, END + 1) if holds(c) and (event(c) or not holds(c - 1))]
    assert wanted, "a condition that never hits tests nothing"
    session = make_session(cycle_seconds=0.0005)
    session.breakpoints.add(text)
    assert [cycle for cycle, _ in hits_forward(session)] == wanted
    assert [cycle for cycle, _ in hits_backward(session)] == wanted
    middle = wanted[len(wanted) // 2]
    session.go_to(middle)
    rest = [cycle for cycle in wanted if cycle > middle]
    assert [cycle for cycle, _ in hits_forward(session)] == rest


def test_an_event_with_a_value(straight: Straight) -> None:
    starts = straight.event("unit Core[0].ALU starts")
    text = "unit Core[0].ALU starts and Core[0].busy[1] > 100"
    check(text, lambda c: starts(c) and straight.busy[c] > 100, starts)
    session = make_session()
    assert not session.breakpoints.add(text).condition.is_slow
    assert session.breakpoints.add("Core[0].busy[1] > 100 and cycle > 7").condition.is_slow


def test_an_event_from_a_cycle_on(straight: Straight) -> None:
    """Its rows are watched from there on, and no cycle of the border is lost."""
    starts = straight.event("unit Core[0].ALU starts")
    some = [cycle for cycle in range(END + 1) if starts(cycle)]
    for border in (some[0], some[len(some) // 2], some[-1]):
        for text, holds in (
            (f"cycle >= {border}", lambda c, b=border: c >= b),
            (f"cycle > {border - 1}", lambda c, b=border: c >= b),
            (f"cycle == {border}", lambda c, b=border: c == b),
            (f"(cycle > {border - 2} or cycle > {border - 1})", lambda c, b=border: c >= b - 1),
        ):
            check(f"unit Core[0].ALU starts and {text}", lambda c, h=holds: starts(c) and h(c), starts)
    session = make_session()
    session.breakpoints.add(f"unit Core[0].ALU starts and cycle > {some[0]}")
    (trigger,) = session.breakpoints.add("unit Core[0].ALU starts and cycle > 300").condition.triggers
    assert trigger.earliest == 300


def test_levels_and_arithmetic(straight: Straight) -> None:
    level, busy = straight.level, straight.busy
    check("queue Core[0].ALU >= 1 and cycle > 300", lambda c: level[c] >= 1 and c > 300)
    check("queue Core[0].ALU == 2 and not cycle < 300", lambda c: level[c] == 2 and c >= 300)
    check("(cycle-100) % 50 > Core[0].busy[1] % 50", lambda c: (c - 100) % 50 > busy[c] % 50)
    check(
        "(Core[0].busy[1] % 7 == 3) and (queue Core[0].ALU < 2)", lambda c: busy[c] % 7 == 3 and level[c] < 2
    )


def test_changes(straight: Straight) -> None:
    level = straight.level
    changed = lambda c: c > 0 and level[c] != level[c - 1]  # noqa: E731
    rises = lambda c: c > 0 and level[c] > level[c - 1]  # noqa: E731
    falls = lambda c: c > 0 and level[c] < level[c - 1]  # noqa: E731
    check("changed queue Core[0].ALU", changed, changed)
    check("rises queue Core[0].ALU", rises, rises)
    check("queue Core[0].ALU falls", falls, falls)
    check("rises (queue Core[0].ALU >= 1)", lambda c: level[c] >= 1 and level[c - 1] < 1)


def test_lasting(straight: Straight) -> None:
    level = straight.level
    for n in (1, 3, 8):
        check(
            f"queue Core[0].ALU >= 1 for {n} cycles",
            lambda c, n=n: c - n >= -1 and all(level[x] >= 1 for x in range(c - n + 1, c + 1)),
        )
    quiet = lambda c: all(level[x] == level[x - 1] for x in range(max(1, c - 10), c + 1))  # noqa: E731
    check("not changed queue Core[0].ALU for 11 cycles", lambda c: c >= 10 and quiet(c))


def test_one_after_another(straight: Straight) -> None:
    start, store = straight.event("unit Core[0].ALU starts"), straight.event("unit Core[0].ST starts")
    for n in (1, 5, 30):
        near = lambda c, n=n: store(c) and any(start(x) for x in range(max(0, c - n), c + 1))  # noqa: E731
        check(f"unit Core[0].ST starts within {n} cycles after unit Core[0].ALU starts", near, store)
    level, busy = straight.level, straight.busy
    check(
        "Core[0].busy[1] % 5 == 0 within 4 cycles after queue Core[0].ALU == 2",
        lambda c: busy[c] % 5 == 0 and any(level[x] == 2 for x in range(max(0, c - 4), c + 1)),
    )


def test_counts(straight: Straight) -> None:
    starts = straight.event("unit Core[0].ALU starts")
    number = lambda c: sum(starts(x) for x in range(c + 1))  # noqa: E731
    check("count(unit Core[0].ALU starts) >= 9", lambda c: number(c) >= 9)
    check("count(unit Core[0].ALU starts) % 4 == 1", lambda c: number(c) % 4 == 1)
    level = straight.level
    rises = lambda c: sum(level[x] >= 1 > level[x - 1] for x in range(1, c + 1))  # noqa: E731
    check("count(queue Core[0].ALU >= 1) == 3", lambda c: rises(c) == 3)


def test_alternatives_hit_by_themselves(straight: Straight) -> None:
    starts = straight.event("instr 40")
    session = make_session()
    session.breakpoints.add("instr 40 or (queue Core[0].ALU >= 1 and cycle > 0)")
    alone = make_session()
    alone.breakpoints.add("queue Core[0].ALU >= 1 and cycle > 0")
    wanted = sorted({c for c, _ in hits_forward(alone)} | {c for c in range(END + 1) if starts(c)})
    assert [c for c, _ in hits_forward(session)] == wanted


def test_tensors_are_known_when_their_operator_has_ended() -> None:
    session = make_session()
    tensor = session.program.graph.tensors[session.program.graph.nodes[0].outputs[0]]
    node = session.program.graph.nodes[0].name
    ends = make_session()
    stop = ends.run_to(f'op "{node}" ends')
    assert session.run_to(f'max("{tensor.name}") > -1e30').cycle == stop.cycle
    values = session.machine.tensor(tensor.id)
    assert values is not None
    expression = f'max("{tensor.name}") - {values.max()}'
    assert _evaluated(session, expression) == pytest.approx(0, abs=1e-3)
    session.go_to(stop.cycle - 1)
    assert _evaluated(session, expression) is None
    assert session.run_to("any nan").kind is StopKind.FINISHED


def _evaluated(session: Session, text: str) -> object:
    return session.evaluate(parse_expression(text, session.scope))


def test_a_past_is_known_wherever_one_is() -> None:
    session = make_session()
    for cycle in (0, 100, 500, END):
        session.go_to(cycle)
        found = _evaluated(session, "count(unit Core[0].ALU starts)")
        digest = session.machine.digest()
        other = make_session()
        other.breakpoints.add("unit Core[0].ALU starts")
        other_hits = [c for c, _ in hits_forward(other) if c <= cycle]
        assert found == len(other_hits)
        assert session.cycle == cycle
        assert session.machine.digest() == digest


def test_logs_go_on() -> None:
    session = make_session()
    item = session.breakpoints.add("log unit Core[0].ALU starts show cycle, Core[0].busy[1] + 1")
    stop = session.breakpoints.add("cycle == 300")
    reason = session.run()
    assert (reason.cycle, reason.breakpoints) == (300, (stop.id,))
    early = [line.cycle for line in session.log.lines]
    assert session.run().kind is StopKind.FINISHED
    lines = session.log.lines
    plain = make_session()
    plain.breakpoints.add("unit Core[0].ALU starts")
    assert [line.cycle for line in lines] == [cycle for cycle, _ in hits_forward(plain)]
    assert early == [line.cycle for line in lines if line.cycle <= 300]
    assert lines[0].values.startswith(f"cycle = {lines[0].cycle}, Core[0].busy[1] + 1 = ")
    session.run_back()
    assert session.cycle == 300
    session.run()
    assert len(session.log.lines) == len(lines)
    assert item.hits >= len(lines)


@pytest.mark.parametrize(
    ("text", "bad", "reason"),
    [
        ("cycle > 3 and cycle < 3", "cycle < 3", "never true together"),
        ("queue Core[0].ALU > 1 and queue Core[0].ALU < 2", "queue Core[0].ALU < 2", "never true together"),
        ("op shift and not op shift", "not op shift", "never true together"),
        ("cycle < 0", "0", "never true"),
        ("cycle == 1.5", "1.5", "never true"),
        ("1 > 2", "1 > 2", "never true"),
        ("1 < 2", "1 < 2", "never becomes true"),
        ("cycle > 10 / 0", "0", "division by zero"),
        ("cycle % (3 - 3) == 1", "3 - 3", "division by zero"),
        ("(op shift", "", "expected `)`"),
        ("op shift)", ")", "expected `and`"),
        ("op shift >= 3", ">=", "only numbers can be compared"),
        ("op shift + 1 > 3", "op shift", "only numbers can be added"),
        ("max(tmp) > 3", "tmp", "no tensor of this name"),
        ("max > 3", "max", "expected brackets"),
        ("count(cycle) > 3", ")", "expected a comparison"),
        ("op shift for 0 cycles", "0", "1 cycle or more"),
        ("op shift within 3 cycles op mix", "op", "expected `after`"),
        ("unit Core[0].ALU sleeps", "sleeps", "expected starts, running"),
        ("unit Core[0].AL starts", "Core[0].AL", "did you mean"),
        ("value DRAM 0xdfe float32 > 1", "0xdfe", "expected the address of 4 bytes"),
        ("any none", "none", "expected nan or inf"),
        ("not cycle", "", "expected a comparison"),
        ("(" * 60, "(", "brackets in each other"),
    ],
)
def test_mistakes_are_named_with_their_place(text: str, bad: str, reason: str) -> None:
    with pytest.raises(ConditionError) as caught:
        make_session().breakpoints.add(text)
    start, end = caught.value.span
    assert text[start:end] == bad
    assert reason in caught.value.reason


def test_a_division_by_zero_while_running_is_one_line_and_harms_nothing() -> None:
    session = make_session()
    item = session.breakpoints.add("100 / (cycle - 50) > 1000")
    with pytest.raises(ConditionError, match="division by zero at cycle 50"):
        session.run()
    assert session.cycle == 50
    session.breakpoints.remove(item.id)
    assert session.run().kind is StopKind.FINISHED
    assert session.go_to(51).cycle == 51


@pytest.mark.parametrize(
    ("text", "start", "some"),
    [
        ("", 0, {"cycle", "op", "unit", "max", "not", "count"}),
        ("op sh", 3, {"shift"}),
        ("op shift ", 9, {"and", "or", "for", "within", "ends"}),
        ("op shift and que", 13, {"queue"}),
        ("op shift and queue Core[0].A", 19, {"Core[0].ALU"}),
        ("max(", 4, {"a"}),
        ("unit Core[0].ALU ", 17, {"starts", "idle"}),
        ("op shift within 3 cycles ", 25, {"after"}),
        ("log op shift ", 13, {"show", "and"}),
        ('op "final sq', 3, {'"final square"'}),
        ("cycle ", 6, {">=", "==", "+"}),
    ],
)
def test_what_may_come_next(text: str, start: int, some: set[str]) -> None:
    session = make_session()
    if text == "max(":
        some = {session.program.graph.tensors[0].name}
    found_start, found = complete(text, session.scope)
    assert found_start == start
    assert some <= set(found)


@pytest.mark.parametrize(
    ("text", "cycle"),
    [
        ("cycle < 300", 300),
        ("cycle < 5000", None),
        ("cycle > 5", 0),
        ("not op shift", -1),
        ("not any nan", None),
        ("max(a) < -1e30", -1),
        ("queue Core[0].ALU <= 2", None),
        ("finally count(unit Core[0].ALU starts) > 1", None),
        ("finally count(unit Core[0].ALU starts) > 1000", END),
    ],
)
def test_assertions_fail_at_their_first_false_cycle(text: str, cycle: int | None) -> None:
    session = make_session()
    if "(a)" in text:
        node = session.program.graph.nodes[0]
        text = text.replace("(a)", f"({session.program.graph.tensors[node.outputs[0]].name})")
        cycle = make_session().run_to(f"op {node.name} ends").cycle
    if text == "not op shift":
        cycle = make_session().run_to("op shift").cycle
    own = session.breakpoints.add("cycle == 400")
    assertions = Assertions(session, (text,))
    assert assertions.run(None, NoProgress()).breakpoints == (own.id,)
    assert assertions.run(None, NoProgress()).kind is StopKind.FINISHED
    found = assertions.finish()
    assert [violation.cycle for violation in found] == ([] if cycle is None else [cycle])
    assert [item.id for item in session.breakpoints.all] == [own.id]
    assert session.cycle == END


def test_an_assertion_about_the_end_fails_without_an_end() -> None:
    session = make_session()
    assertions = Assertions(session, ("finally cycle > 3",))
    assertions.run(100, NoProgress())
    (violation,) = assertions.finish()
    assert "did not end" in violation.reason
    with pytest.raises(ConditionError):
        Assertions(session, ("op nothing",))


def test_the_text_debugger_evaluates_and_logs() -> None:
    session = make_session()
    assert "42" in answer_of(session, "eval 6 * 7").as_text()
    assert "not known" in answer_of(session, f"eval max({_first_result(session)})").as_text()
    answer_of(session, "log op shift show cycle")
    answer_of(session, "run")
    assert len(answer_of(session, "log").rows) == 1
    back = answer_of(session, "backto op shift").pairs["cycle"]
    assert back == session.log.lines[0].cycle
    answer_of(session, "restart")
    assert answer_of(session, "runto op shift").pairs["cycle"] == back


def _first_result(session: Session) -> str:
    return session.program.graph.tensors[session.program.graph.nodes[0].outputs[0]].name
