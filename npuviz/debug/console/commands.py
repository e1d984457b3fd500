"""List the commands of the text debugger in one table; a new command is a line here."""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from npuviz.base.errors import NpuvizError, UsageError
from npuviz.debug.console import branches, causes, elements, inspection, motion, provenance, writers
from npuviz.debug.console.answer import Answer
from npuviz.debug.session import Session

Run = Callable[[Session, str], Answer]


@dataclass(frozen=True, slots=True)
class TextCommand:
    """A command: its name, usage line and meaning, the function that executes it, and other words for it."""

    name: str
    usage: str
    doc: str
    run: Run
    aliases: tuple[str, ...] = ()


def _help(session: Session, rest: str) -> Answer:
    rows = tuple((c.usage, c.doc, " ".join(c.aliases)) for c in COMMANDS)
    return Answer(columns=("command", "meaning", "also"), rows=rows, name="commands")


COMMANDS = (
    TextCommand(
        "break", "break CONDITION|FILE:LINE|LINE|FUNCTION", "stop there", motion.set_breakpoint, ("b",)
    ),
    TextCommand("breakpoints", "breakpoints", "all breakpoints", motion.list_breakpoints, ("bl",)),
    TextCommand("delete", "delete N", "delete a breakpoint", motion.delete, ("d", "bc")),
    TextCommand("run", "run [N]", "run to a stop, or to cycle N", motion.run, ("r", "continue", "c", "g")),
    TextCommand("step", "step [N]", "N cycles forward", motion.step, ("s", "stepi", "si", "t")),
    TextCommand(
        "next", "next [UNIT]", "to the unit's next instruction", motion.next_instruction, ("n", "nexti", "ni")
    ),
    TextCommand(
        "back", "back [N]", "N cycles back", motion.back, ("reverse-stepi", "rsi", "reverse-step", "rs", "t-")
    ),
    TextCommand(
        "previous",
        "previous [UNIT]",
        "to the unit's previous instruction",
        motion.previous_instruction,
        ("reverse-nexti", "rni", "reverse-next", "rn", "p-"),
    ),
    TextCommand(
        "runback", "runback", "back to the last stop", motion.run_back, ("reverse-continue", "rc", "g-")
    ),
    TextCommand("goto", "goto CYCLE", "to a cycle, ignoring breakpoints", motion.go_to, ("go",)),
    TextCommand("restart", "restart", "begin again, without what was set", motion.restart, ("start",)),
    TextCommand(
        "print", "print [PROBE|VARIABLE]", "value of a probe or of a variable", inspection.print_probe, ("p",)
    ),
    TextCommand("eval", "eval EXPRESSION", "value of an expression or condition", inspection.evaluate),
    TextCommand("log", "log [CONDITION]", "write a line at each hit, and go on; the lines", motion.log),
    TextCommand("runto", "runto CONDITION", "to where a condition next holds", motion.run_to),
    TextCommand(
        "turn",
        "turn VARIABLE N|+N|-N [UNIT]",
        "to iteration N of a loop, or N further; loops around it stay in their iterations",
        motion.to_turn,
        ("iteration",),
    ),
    TextCommand("loops", "loops", "the program's loops, and the iterations that units are in", motion.loops),
    TextCommand("backto", "backto CONDITION", "back to where it last held", motion.back_to),
    TextCommand(
        "mem",
        "mem MEMORY ADDR LEN [DTYPE] | [MEMORY] VARIABLE [LEN] [DTYPE]",
        "contents of a memory",
        inspection.dump_memory,
        ("x", "db"),
    ),
    TextCommand("set", "set PROBE VALUE", "change a probe", inspection.set_probe),
    TextCommand(
        "who",
        "who MEMORY ADDR | VARIABLE | QUEUE | C,R",
        "last writer of a byte; who sent the words there",
        writers.who,
    ),
    TextCommand(
        "why",
        "why [UNIT|QUEUE [CYCLE [TO]]]",
        "why a unit is idle in a cycle; what it lost the cycles of a span to",
        causes.why_idle,
    ),
    TextCommand(
        "origin",
        "origin MEMORY ADDR|TENSOR|VARIABLE [DEPTH]",
        "what a byte was made from, step by step back to inputs and weights",
        provenance.origin,
    ),
    TextCommand(
        "readers",
        "readers MEMORY ADDR|TENSOR|VARIABLE",
        "who reads a byte next, who overwrites it, which outputs it reaches",
        provenance.readers,
    ),
    TextCommand("queues", "queues [C,R[..C,R]]", "what the queues hold", inspection.queues),
    TextCommand("units", "units [C,R[..C,R]]", "what the units do", inspection.units),
    TextCommand("semaphores", "semaphores", "semaphores and who waits for them", inspection.semaphores),
    TextCommand("report", "report [TITLE]", "the machine's tables about the run so far", inspection.reports),
    TextCommand("deps", "deps INSTRUCTION|UNIT", "who an instruction waits for", inspection.dependencies),
    TextCommand("hazards", "hazards [C,R[..C,R]]", "hazards found so far, by line", inspection.hazards),
    TextCommand(
        "over",
        "over [C,R|UNIT]",
        "to the next line of a processing element or unit, past calls",
        elements.over,
        ("nl",),
    ),
    TextCommand("into", "into [C,R|UNIT]", "to its next line, into calls", elements.into),
    TextCommand("out", "out [C,R|UNIT]", "to where its function was called", elements.out, ("finish",)),
    TextCommand("task", "task C,R", "to its next task", elements.task),
    TextCommand("over-", "over- [C,R|UNIT]", "to its line before, past calls", elements.over_back, ("nl-",)),
    TextCommand("into-", "into- [C,R|UNIT]", "to its line before, into calls", elements.into_back),
    TextCommand("out-", "out- [C,R|UNIT]", "back to the call of its function", elements.out_back),
    TextCommand("task-", "task- C,R", "back to where it last began a task", elements.task_back),
    TextCommand(
        "frames",
        "frames [C,R|UNIT]",
        "its calls now, or lines of all units",
        elements.frames,
        ("bt", "backtrace", "where"),
    ),
    TextCommand(
        "locals",
        "locals [C,R|MEMORY]",
        "its variables in scope; what the memories hold under a name",
        elements.local_variables,
    ),
    TextCommand("globals", "globals C,R [NAME]", "its global variables", elements.global_variables),
    TextCommand("list", "list [C,R|UNIT]", "the text around its line", elements.list_source, ("l",)),
    TextCommand("branches", "branches", "futures that writes have replaced", branches.branches),
    TextCommand("branch", "branch N", "go to where such a future was left", branches.switch),
    TextCommand("compare", "compare N", "such a future beside the present one", branches.compare_branch),
    TextCommand("digest", "digest", "hash of the machine's state", inspection.digest),
    TextCommand("info", "info", "program, machine and where it is", inspection.info, ("i",)),
    TextCommand("help", "help", "this list", _help, ("h", "?")),
)

BY_WORD: Mapping[str, TextCommand] = {
    word: command for command in COMMANDS for word in (command.name, *command.aliases)
}


def command_named(word: str) -> TextCommand:
    """Return the command of a word. Raises UsageError for an unknown one, with the most similar word."""
    command = BY_WORD.get(word)
    if command is None:
        close = difflib.get_close_matches(word, BY_WORD, n=1)
        hint = f"did you mean {close[0]}?" if close else "`help` lists the commands"
        raise UsageError(f"unknown command {word!r}; {hint}")
    return command


def answer_of(session: Session, line: str) -> Answer:
    """Execute one command line. Raises UsageError with the command's usage if it fails."""
    word, _, rest = line.strip().partition(" ")
    command = command_named(word)
    try:
        return command.run(session, rest.strip())
    except (NpuvizError, ValueError, KeyError) as error:
        detail = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
        raise UsageError(f"{detail} (usage: {command.usage})") from error
