"""Ways to change bytes, texts and trees of JSON, for the families."""

import json
import re
import struct
from collections.abc import Callable
from random import Random
from typing import Any

NUMBERS = (
    *range(4),
    *(n + d for n in (8, 16, 32, 64, 128, 256, 1024) for d in (-1, 0, 1)),
    *((1 << n) + d for n in (15, 16, 24, 31, 32, 53, 63, 64) for d in (-1, 0, 1)),
    10**30,
)
"""Bounds of types and limits that programs have, and what lies beside them."""
TEXTS = (
    *(
        "",
        " ",
        "\0",
        "..",
        "../../x",
        "/etc/passwd",
        "a" * 4096,
        "**",
        "*",
        "%s%n",
        "{}",
        "'\"`;--",
        "\x1b[31m",
    ),
    *(
        "é",
        "\u202e",
        "\ud7ff",
        "\U0001f600",
        "<script>alert(1)</script>",
        "nan",
        "inf",
        "-inf",
        "1e309",
        "0x",
    ),
    *("True", "null", "-1", "1" * 5000, "\n", "a\nb", "CON", "~", "$HOME"),
)
"""Texts that are wrongly quoted, understood or shown where nobody thought of them."""
FLOATS = (0.0, -0.0, 0.5, -1.5, 1e-320, 1e308, float("inf"), float("-inf"), float("nan"))
_WORD = re.compile(r"\s+|\w+|[^\w\s]")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|\d+")


def change_bytes(data: bytes, rng: Random) -> bytes:
    """One to four changes of bytes anywhere."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        rng.choice(_BYTE_CHANGES)(changed, rng)
    return bytes(changed)


def _place(data: bytearray, rng: Random) -> int:
    return rng.randrange(len(data) + 1)


def _flip(data: bytearray, rng: Random) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set(data: bytearray, rng: Random) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def _number(data: bytearray, rng: Random) -> None:
    size = rng.choice((1, 2, 4, 8))
    if len(data) < size:
        return
    at = rng.randrange(len(data) - size + 1)
    if rng.random() < 0.7:
        at -= at % size
    value = rng.choice(NUMBERS) * rng.choice((1, 1, 1, -1)) % (1 << 8 * size)
    if rng.random() < 0.1:
        data[at : at + size] = struct.pack("<d", rng.choice(FLOATS))[:size]
    else:
        data[at : at + size] = value.to_bytes(size, rng.choice(("little", "little", "big")))


def _add(data: bytearray, rng: Random) -> None:
    if len(data) >= 4:
        at = rng.randrange(len(data) - 3)
        value = int.from_bytes(data[at : at + 4], "little") + rng.choice((-8, -4, -1, 1, 4, 8, 64))
        data[at : at + 4] = (value % (1 << 32)).to_bytes(4, "little")


def _cut(data: bytearray, rng: Random) -> None:
    at = _place(data, rng)
    del data[at : at + rng.choice((1, 1, 4, 8, 64, len(data)))]


def _insert(data: bytearray, rng: Random) -> None:
    at = _place(data, rng)
    data[at:at] = rng.randbytes(rng.choice((1, 4, 8, 64)))


def _repeat(data: bytearray, rng: Random) -> None:
    at, size = _place(data, rng), rng.choice((1, 4, 8, 64, 512))
    data[at:at] = data[at : at + size] * rng.choice((1, 1, 2, 16))


def _move(data: bytearray, rng: Random) -> None:
    source, target, size = _place(data, rng), _place(data, rng), rng.choice((4, 8, 64, 512))
    part = data[source : source + size]
    data[target : target + len(part)] = part


_BYTE_CHANGES: tuple[Callable[[bytearray, Random], None], ...] = (
    _flip,
    _set,
    _set,
    _number,
    _number,
    _number,
    _add,
    _cut,
    _insert,
    _repeat,
    _move,
)


def change_text(text: str, rng: Random, words: tuple[str, ...] = ()) -> str:
    """One to four changes of words and lines; `words` are those that the language has."""
    for _ in range(rng.randint(1, 4)):
        text = rng.choice(_TEXT_CHANGES)(text, rng, words)
    return text


def _line_change(text: str, rng: Random, words: tuple[str, ...]) -> str:
    lines = text.split("\n")
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(4)
    if kind == 0:
        del lines[first]
    elif kind == 1:
        lines.insert(second, lines[first])
    elif kind == 2:
        lines[first], lines[second] = lines[second], lines[first]
    else:
        lines[first] = lines[first][: rng.randrange(len(lines[first]) + 1)]
    return "\n".join(lines)


def _word_change(text: str, rng: Random, words: tuple[str, ...]) -> str:
    found = _WORD.findall(text)
    if not found:
        return rng.choice(TEXTS)
    at = rng.randrange(len(found))
    kind = rng.randrange(5)
    if kind == 0:
        del found[at]
    elif kind == 1:
        found.insert(at, found[rng.randrange(len(found))])
    elif kind == 2:
        found[at] = found[rng.randrange(len(found))]
    elif kind == 3:
        found[at] = rng.choice(words or TEXTS)
    else:
        found.insert(
            at, rng.choice(words or ("(", ")", "[", "]", "{", "}", ",", ".", "-", ":", "=", '"', "'", "\\"))
        )
    return "".join(found)


def _number_change(text: str, rng: Random, words: tuple[str, ...]) -> str:
    found = list(_NUMBER.finditer(text))
    if not found:
        return _word_change(text, rng, words)
    match = rng.choice(found)
    value = rng.choice(
        (str(rng.choice(NUMBERS)), str(-rng.choice(NUMBERS)), hex(rng.choice(NUMBERS)), "0.5", "1e400")
    )
    return text[: match.start()] + value + text[match.end() :]


def _strange_text(text: str, rng: Random, words: tuple[str, ...]) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(TEXTS) + text[at:]


def _nest(text: str, rng: Random, words: tuple[str, ...]) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice("([{-!&*") * rng.choice((2, 50, 3000)) + text[at:]


_TEXT_CHANGES: tuple[Callable[[str, Random, tuple[str, ...]], str], ...] = (
    _line_change,
    _word_change,
    _word_change,
    _word_change,
    _number_change,
    _number_change,
    _strange_text,
    _nest,
)


def change_json(data: bytes, rng: Random) -> bytes:
    """One to four changes of values, keys and elements; sometimes of the text instead."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return change_bytes(data, rng)
    if rng.random() < 0.15:
        return change_text(data.decode(errors="replace"), rng).encode(errors="replace")
    for _ in range(rng.randint(1, 4)):
        tree = change_tree(tree, rng)
    return json.dumps(tree).encode()


def strange_value(rng: Random) -> Any:
    """A value that a field does not expect."""
    return rng.choice(
        (
            None,
            True,
            [],
            {},
            [[]],
            {"": 0},
            [0] * 100,
            rng.choice(NUMBERS),
            -rng.choice(NUMBERS),
            rng.choice(FLOATS),
            rng.choice(TEXTS),
            rng.choice(NUMBERS),
            str(rng.choice(NUMBERS)),
        )
    )


def change_tree(tree: Any, rng: Random) -> Any:
    """One change somewhere in lists and dictionaries."""
    if rng.random() < 0.1 or not isinstance(tree, list | dict) or not tree:
        return _other(tree, rng)
    if isinstance(tree, list):
        return _change_list(list(tree), rng)
    changed = dict(tree)
    key = rng.choice(list(changed))
    kind = rng.randrange(12)
    if kind == 0:
        del changed[key]
    elif kind == 1:
        changed[rng.choice(TEXTS)] = changed.pop(key)
    elif kind == 2:
        changed[key] = changed[rng.choice(list(changed))]
    else:
        changed[key] = change_tree(changed[key], rng)
    return changed


def _change_list(items: list[Any], rng: Random) -> list[Any]:
    at, kind = rng.randrange(len(items)), rng.randrange(12)
    if kind == 0:
        del items[at]
    elif kind == 1:
        items.insert(at, items[rng.randrange(len(items))])
    elif kind == 2:
        items[at] = items[rng.randrange(len(items))]
    else:
        items[at] = change_tree(items[at], rng)
    return items


def _other(value: Any, rng: Random) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.7:
        return rng.choice(
            (value + 1, value - 1, value * 2, -value, rng.choice(NUMBERS), rng.choice((0, 1, 2)))
        )
    if isinstance(value, str) and value and rng.random() < 0.5:
        return change_text(value, rng)
    return strange_value(rng)


def change_message(message: Any, rng: Random) -> None:
    """One change of a field somewhere in a message of protobuf."""
    while True:
        found: list[tuple[Any, Any]] = list(message.ListFields())
        if not found:
            return
        field, value = rng.choice(found)
        repeated = _is_repeated(value)
        if repeated and (not len(value) or rng.random() < 0.25):
            _change_repeated(value, rng)
            return
        chosen = rng.choice(list(value)) if repeated else value
        if hasattr(chosen, "ListFields"):
            if rng.random() < 0.05:
                chosen.Clear()
                return
            message = chosen
            continue
        changed = _other_scalar(chosen, rng)
        try:
            if repeated:
                value[rng.randrange(len(value))] = changed
            else:
                setattr(message, field.name, changed)
        except (ValueError, TypeError, OverflowError):
            pass  # the field cannot hold it
        return


def _is_repeated(value: Any) -> bool:
    return not isinstance(value, str | bytes) and hasattr(value, "__len__")


def _change_repeated(items: Any, rng: Random) -> None:
    if not len(items):
        return
    at, kind = rng.randrange(len(items)), rng.randrange(3)
    if kind == 0:
        del items[at]
    elif kind == 1:
        items.append(items[at])
    else:
        kept = list(items)
        rng.shuffle(kept)
        del items[:]
        items.extend(kept)


def _other_scalar(value: Any, rng: Random) -> Any:
    if isinstance(value, bytes):
        return change_bytes(value, rng) if rng.random() < 0.8 else rng.choice(TEXTS).encode(errors="replace")
    if isinstance(value, str):
        return rng.choice(TEXTS) if rng.random() < 0.5 else change_text(value, rng)
    if isinstance(value, float):
        return rng.choice(FLOATS)
    return rng.choice((value + 1, value - 1, -value, value * 2, rng.randrange(20), rng.choice(NUMBERS)))
