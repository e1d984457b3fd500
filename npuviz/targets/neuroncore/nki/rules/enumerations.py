"""Enumerations and memories that calls name, generation 2: members and objects, not numbers and strings.

# Ref: aws-neuron-sdk 81ce03ae, nki/migration/index.rst, 0.2.0 to 0.3.0, "Integer enum constants no longer
# supported", "String buffer names no longer supported"; 0.2 takes both
"""

import inspect
from enum import Enum
from types import FunctionType
from typing import Any

import numpy as np

from npuviz.targets.neuroncore.nki.calls.isa import names as isa_names
from npuviz.targets.neuroncore.nki.calls.language import Buffer
from npuviz.targets.neuroncore.nki.rules.operands import Given, Rule, listed, warn, wrong

_ENUMERATIONS: dict[str, type[Enum]] = {
    "engine": isa_names.engine,
    "reduce_cmd": isa_names.reduce_cmd,
    "dge_mode": isa_names.dge_mode_second,
    "oob_mode": isa_names.oob_mode,
    "perf_mode": isa_names.matmul_perf_mode,
    "dma_engine": isa_names.dma_engine,
}
"""Parameter -> what it takes a member of."""
_PUBLIC: dict[type[Any], str] = {
    isa_names.dge_mode_first: "neuronxcc.nki.isa.dge_mode",
    isa_names.dge_mode_second: "dge_mode",
}
_MEMORIES = ("sbuf", "psum", "hbm", "private_hbm", "shared_hbm")


def member_rules(function: FunctionType) -> tuple[Rule, ...]:
    """One rule for each parameter of a function that takes a member of an enumeration."""
    parameters = inspect.signature(function).parameters
    return tuple(_member(each, _ENUMERATIONS[each]) for each in parameters if each in _ENUMERATIONS)


def language_rules(function: FunctionType) -> tuple[Rule, ...]:
    """The rules of a function of nl that takes a memory, or that takes a mask in generation 1."""
    parameters = inspect.signature(function).parameters
    return tuple(rule for name, rule in (("buffer", _memory), ("mask", _mask)) if name in parameters)


def _member(parameter: str, members: type[Enum]) -> Rule:
    """A parameter is a member of an enumeration; its number is what 0.2 took."""

    def check(call: str, given: Given) -> None:
        value = given.get(parameter)
        if value is None or isinstance(value, members):
            return
        named = f"nisa.{_name(members)}"
        if isinstance(value, int | np.integer | str) and not isinstance(value, bool | Enum):
            found = next((each for each in members if each.value == value), None)
            if found is not None:
                warn(call, f"{parameter}={value!r} is refused since 0.3.0; write {named}.{found.name}")
                return
        shown = f"{_name(type(value))}.{value.name}" if isinstance(value, Enum) else repr(value)
        allowed = listed([each.name for each in members])
        raise wrong(call, f"{parameter}={shown} is no member of {named}: {allowed}")

    return check


def _name(members: type[Any]) -> str:
    return _PUBLIC.get(members, members.__name__)


def _mask(call: str, given: Given) -> None:
    """Generation 2 has no masks."""
    if given.get("mask") is not None:
        warn(call, "mask= is not supported since 0.2.0; take slices of the right size")


def _memory(call: str, given: Given) -> None:
    """A memory is an object of nl; its name is what 0.2 took."""
    buffer = given.get("buffer")
    if buffer is None or isinstance(buffer, Buffer):
        return
    if isinstance(buffer, str) and buffer in _MEMORIES:
        warn(call, f"buffer={buffer!r} is refused since 0.3.0; write buffer=nl.{buffer}")
        return
    if isinstance(buffer, str | int | Enum):
        raise wrong(call, f"buffer={buffer!r} is none of {listed([f'nl.{each}' for each in _MEMORIES])}")
