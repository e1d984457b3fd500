"""Texts of a line: conditions, commands of the debugger, places, patterns, expressions, settings."""

import io
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random

from npuviz.base.errors import NpuvizError
from npuviz.debug.condition.language import parse
from npuviz.debug.console.commands import BY_WORD
from npuviz.debug.console.debugger import TextDebugger
from npuviz.debug.session import Session
from npuviz.debug.translate import parse_value
from npuviz.sim.probe import Probe
from npuviz.workbench import arguments
from npuviz.workbench.choosing import find_file
from npuviz.workbench.finding import fuzzy, places
from npuviz.workbench.headless.bundles import parse_window
from npuviz.workbench.opening import OpenOptions, open_file
from npuviz.workbench.resources import sample_models_path
from npuviz.workbench.sweep import values
from tests.fuzz.driving import warm_up
from tests.fuzz.mutations import change_text

SUFFIX = ".line"
SHARE = 900
_SEEDS = (
    *("cycle == 1200", "cycle >= 1200 or instr 1234", "instr 10..20", 'op "conv1" ends', "op conv1"),
    *(
        "queue Core[0].LD >= 2",
        "queue Core[0].LD full",
        "read Core[0].SPAD 0x100..0x180",
        "write DRAM 0x1000",
    ),
    *("Core[0].LD.latency > 9", "line pe.csl:42 at 1,0", "task receive at 0,0", "wavelet f32 < 0"),
    *("wavelet index == 4 or wavelet control", "word half >= 3"),
    *("182,340", "1.5 us", "40 %", "end", "#12", "conv1", "f relu"),
    *(
        "mean units.Core[*].EX.utilization",
        "queues.*.peak",
        "max memories.DRAM.bytes",
        "seconds.load",
        "cycles",
    ),
    *("cores * core_width ** 2", "min(a, sqrt(b)) / log2(-c)", "-(1 + 2.5e3)"),
    *(
        "batch=1",
        "dram_size=0",
        "core_width=8",
        "mode=parity",
        "launch=main",
        "params.N=4",
        "x=in.npy",
        "csv:a.csv",
    ),
    *("1280x800", "10..20", "tiny_cnn", "tiny*", "1 2 3", "0x10", "-1.5", "true"),
)
_LANGUAGE = """
Core Core[*] [ ] .. == >= < or at ** * full ends % us = cycle instr op queue read write wavelet - + / ( ) ,
0x " '
"""
_EXTRA = tuple(_LANGUAGE.split())
_FOREVER = ("run", "goto", "step", "restart", "step-")
_COMMANDS = tuple(word for word in BY_WORD if not word.startswith(_FOREVER))


def seeds() -> list[bytes]:
    """Texts of every kind, and every command of the debugger with an operand."""
    commands = [f"{command.usage}" for command in dict.fromkeys(BY_WORD.values())]
    return [
        text.encode() for text in (*_SEEDS, *commands, "print Core[0].LD.latency", "who DRAM 0x10", "step 2")
    ]


def mutate(data: bytes, rng: Random) -> bytes:
    """Change words, with those of the languages."""
    return change_text(data.decode(errors="replace"), rng, _EXTRA if rng.random() < 0.7 else ()).encode(
        errors="replace"
    )


@cache
def _session() -> Session:
    opened = open_file(sample_models_path() / "tiny_cnn.onnx", OpenOptions(target="systolic"))
    assert opened.session is not None
    opened.session.go_to(500)
    return opened.session


def prepare() -> None:
    """A session to ask."""
    warm_up("systolic")
    _session()


def attempt(path: Path) -> object:
    """Give the text to everything that takes one; an error of one place is no end for the others."""
    text = path.read_bytes().decode(errors="replace")
    session = _session()
    machine = session.machine
    columns = dict.fromkeys("abc", 2.0)
    summary = {"units": [{"name": "Core[0].EX", "utilization": 0.5}], "cycles": 3, "counters": {"a" * 40: 1}}
    probe = machine.probes[0]
    takers: tuple[Callable[[], object], ...] = (
        lambda: parse(text, machine.description, session.program, machine.probes, session.fabric),
        lambda: places.places(text, machine.description, session.program, 1000, 10),
        lambda: places.parse_cycle(text, 1e9, 1000),
        lambda: fuzzy.score(text, "layer1/conv/weights"),
        lambda: values.check_path(text),
        lambda: values.metric(summary, text),
        lambda: (values.check_expression(text, columns), values.evaluate(text, columns)),
        lambda: arguments.parse_settings([text]),
        lambda: arguments.parse_inputs([text]),
        lambda: arguments.parse_exports([text]),
        lambda: arguments.parse_size(text),
        lambda: arguments.parse_record(text),
        lambda: parse_window(text),
        lambda: _value(text, probe),
        lambda: find_file(text),
        lambda: _debug(session, text),
    )
    refusals = [error for taker in takers if (error := _refusal(taker)) is not None]
    name, equals, value = text.partition("=")
    if equals:
        refusals += [error for error in _settings(name, value) if error is not None]
    if refusals:
        raise max(refusals, key=lambda error: len(str(error)) + 10000 * ("\n" in str(error)))
    return None


def _value(text: str, probe: Probe) -> None:
    with suppress(ValueError):  # its word for a value that the probe does not take
        parse_value(text, probe)


def _refusal(taker: Callable[[], object]) -> NpuvizError | None:
    try:
        taker()
    except NpuvizError as error:
        return error
    return None


def _settings(name: str, value: str) -> list[NpuvizError | None]:
    from npuviz.targets.neuroncore.spec import SETTINGS as NEURON
    from npuviz.targets.rk3588.spec import SETTINGS as RKNN
    from npuviz.targets.systolic.spec import make_spec

    return [
        _refusal(lambda: NEURON.make(settings={name: value})),
        _refusal(lambda: RKNN.make(settings={name: value})),
        _refusal(lambda: make_spec("", None, {name: value})),
    ]


def _debug(session: Session, text: str) -> None:
    """One command, where it does not run for long."""
    if text.split(" ")[0] in _COMMANDS:
        TextDebugger(session, io.StringIO()).execute(text)
        for item in tuple(session.breakpoints.all):
            session.breakpoints.remove(item.id)
