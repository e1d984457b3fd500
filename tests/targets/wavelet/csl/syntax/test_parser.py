from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from lark.load_grammar import load_grammar

from npuviz.base.kernels.helper import CACHE_VARIABLE
from npuviz.targets.wavelet.csl.syntax import parser, tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.load import shipping


def declarations(text: str) -> Sequence[tree.Declaration]:
    return parser.parse(text, "t.csl", 3).declarations


def expression(text: str) -> tree.Expression:
    node = declarations(f"const x = {text};")[0]
    assert isinstance(node, tree.Variable)
    assert node.value is not None
    return node.value


def shape(node: tree.Expression) -> str:
    """An expression with all its operators in parentheses."""
    if isinstance(node, tree.Binary):
        return f"({shape(node.left)} {node.operator} {shape(node.right)})"
    if isinstance(node, tree.Unary):
        return f"({node.operator}{shape(node.operand)})"
    if isinstance(node, tree.IntegerLiteral):
        return str(node.value)
    assert isinstance(node, tree.Name)
    return node.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * c", "(a + (b * c))"),
        ("a - b - c", "((a - b) - c)"),
        ("n & (n - 1) == 0", "((n & (n - 1)) == 0)"),
        ("a | b ^ c & d", "(a | (b ^ (c & d)))"),
        ("a << 2 | b", "((a << 2) | b)"),
        ("a + 1 << 2", "((a + 1) << 2)"),
        ("a < b and c or !d", "(((a < b) and c) or (!d))"),
        ("-a * ~b", "((-a) * (~b))"),
    ],
)
def test_precedence(text: str, expected: str) -> None:
    assert shape(expression(text)) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [("0x1F", 31), ("0b101", 5), ("1_000", 1000), ("'a'", 97), (r"'\n'", 10), (r"'\x41'", 65), ("007", 7)],
)
def test_integer_literals(text: str, value: int) -> None:
    node = expression(text)
    assert isinstance(node, tree.IntegerLiteral)
    assert node.value == value


@pytest.mark.parametrize(
    ("text", "value"), [("1.5", 1.5), ("2.0e-3", 2e-3), ("1e3", 1000.0), ("1_0.5", 10.5)]
)
def test_float_literals(text: str, value: float) -> None:
    node = expression(text)
    assert isinstance(node, tree.FloatLiteral)
    assert node.value == value


def test_string_escapes() -> None:
    node = expression(r'"a\n\x00\"b"')
    assert isinstance(node, tree.StringLiteral)
    assert node.value == b'a\n\x00"b'


def test_parameters_of_a_function_type_may_have_names() -> None:
    node = expression("fn(count: i32, to: [*]f32) void")
    assert isinstance(node, tree.FunctionType)
    count, to = node.parameters
    assert isinstance(count, tree.Name)
    assert isinstance(to, tree.PointerType)


def test_types_are_expressions() -> None:
    node = expression("*const fn([*]const u16, [2, n]m.T) void")
    assert isinstance(node, tree.PointerType)
    assert node.const
    function = node.pointee
    assert isinstance(function, tree.FunctionType)
    many, array = function.parameters
    assert isinstance(many, tree.PointerType)
    assert (many.many, many.const) == (True, True)
    assert isinstance(array, tree.ArrayType)
    assert isinstance(array.element, tree.Member)


def test_return_type_leaves_the_body() -> None:
    function = declarations("fn f(a: u16, comptime T: type) [3]i16 { return [3]i16 {1, 2, 3}; }")[0]
    assert isinstance(function, tree.Function)
    assert [parameter.comptime for parameter in function.parameters] == [False, True]
    assert function.body is not None
    statement = function.body.statements[0]
    assert isinstance(statement, tree.Return)
    assert isinstance(statement.value, tree.ArrayLiteral)
    assert len(statement.value.elements) == 3


def test_typed_struct_literal_and_member_chain() -> None:
    node = expression("m.Route{ .rx = .{1, 2}, .tx = .{} }")
    assert isinstance(node, tree.StructLiteral)
    assert isinstance(node.type, tree.Member)
    assert [field.name for field in node.fields] == ["rx", "tx"]
    assert isinstance(node.fields[0].value, tree.TupleLiteral)
    empty = node.fields[1].value
    assert isinstance(empty, tree.StructLiteral)
    assert empty.type is None


def test_if_as_value_without_else_and_void() -> None:
    node = expression("if (a) 1 else if (b) {}")
    assert isinstance(node, tree.IfExpression)
    inner = node.otherwise
    assert isinstance(inner, tree.IfExpression)
    assert isinstance(inner.then, tree.VoidLiteral)
    assert inner.otherwise is None


def body_of(text: str) -> tuple[tree.Statement, ...]:
    function = declarations("fn f() void {" + text + "}")[0]
    assert isinstance(function, tree.Function)
    assert function.body is not None
    return function.body.statements


def test_if_statements_without_braces() -> None:
    first, second = body_of("if (a) x = 1 else x = 2; if (b) @block(q) else @unblock(q);")
    assert isinstance(first, tree.IfStatement)
    assert isinstance(first.then, tree.Assignment)
    assert isinstance(first.otherwise, tree.Assignment)
    assert isinstance(second, tree.IfStatement)
    assert isinstance(second.then, tree.ExpressionStatement)


def test_loops_labels_and_steps() -> None:
    loop, other = body_of("outer: while (i < n) : (i += 1) { continue :outer; } for (a) |_, k| { break; }")
    assert isinstance(loop, tree.While)
    assert loop.label == "outer"
    assert isinstance(loop.step, tree.Assignment)
    assert loop.step.operator == "+"
    assert isinstance(loop.body, tree.Block)
    jump = loop.body.statements[0]
    assert isinstance(jump, tree.Continue)
    assert jump.label == "outer"
    assert isinstance(other, tree.For)
    assert (other.element, other.index) == ("_", "k")


def test_switch_prongs() -> None:
    (statement,) = body_of("switch (x) { 0, 1 => { y = 1; }, M.A => return, else => y = 2, }")
    assert isinstance(statement, tree.SwitchStatement)
    assert [len(prong.values) for prong in statement.prongs] == [2, 1, 0]
    assert isinstance(statement.prongs[1].body, tree.Return)
    node = expression("switch (x) { 0 => 1, else => {} }")
    assert isinstance(node, tree.SwitchExpression)
    assert isinstance(node.prongs[1].body, tree.VoidLiteral)


def test_tensor_access() -> None:
    node = expression("|i, j|{n, 2} -> m.A[i + 1, j]")
    assert isinstance(node, tree.TensorAccess)
    assert node.variables == ("i", "j")
    assert isinstance(node.base, tree.Member)
    assert len(node.indices) == 2


def test_declarations_and_their_attributes() -> None:
    text = "export var a: [4]f32 align(16) = @zeros([4]f32); extern const b: u16; color old; param p = {};"
    first, second, old, last = declarations(text)
    assert isinstance(first, tree.Variable)
    assert first.linkage == "export"
    assert isinstance(first.align, tree.IntegerLiteral)
    assert isinstance(second, tree.Variable)
    assert second.linkage == "extern"
    assert isinstance(old, tree.Variable)
    assert old.old_color
    assert isinstance(last, tree.Variable)
    assert isinstance(last.value, tree.VoidLiteral)


def test_comptime_forms() -> None:
    block, function = declarations(
        "comptime { f(); } fn f() void { comptime var x = 1; comptime { g(); } y = comptime h(1); }"
    )
    assert isinstance(block, tree.ComptimeBlock)
    assert isinstance(function, tree.Function)
    assert function.body is not None
    variable, inner, assignment = function.body.statements
    assert isinstance(variable, tree.Variable)
    assert variable.comptime
    assert isinstance(inner, tree.ComptimeBlock)
    assert isinstance(assignment, tree.Assignment)
    assert isinstance(assignment.value, tree.ComptimeExpression)


def test_enum_and_struct_types() -> None:
    node = expression("enum(u16) { A, B = 4, C }")
    assert isinstance(node, tree.EnumType)
    assert [member.name for member in node.members] == ["A", "B", "C"]
    other = expression("struct { a: u16, b: [2]bool = x }")
    assert isinstance(other, tree.StructType)
    assert other.fields[1].default is not None


def test_spans_cover_the_text() -> None:
    node = expression("foo(1,\n  2)")
    assert node.at == tree.Span(3, 1, 11, 2, 5)


def test_keywords_inside_names() -> None:
    assert isinstance(expression("iffy.fn_a"), tree.Member)
    assert isinstance(declarations("const layout_mod = 1;")[0], tree.Variable)


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("const x = 3\nconst y = 4;", 1, 12, "expected ;"),
        ("fn f() void { x = ; }", 1, 19, "unexpected ';'"),
        ('const a = "abc;\n', 1, 11, "without its end"),
        ("layout { ", 1, 10, "ends too early"),
        ("const s = .{ .a = 1, .a = 2 };", 1, 22, "twice"),
        ("/* x */", 1, 1, "unexpected"),
        ("const x = $;", 1, 11, "unexpected character"),
        ("const t = |i|{4} -> a;", 1, 21, "ends with indices"),
        ("const t = |i, j|{4} -> a[i];", 1, 11, "lengths"),
        ("const x += 1;", 1, 9, "expected ="),
        ("banana x;", 1, 1, "cannot start with"),
    ],
)
def test_syntax_errors_have_a_place(text: str, line: int, column: int, words: str) -> None:
    with pytest.raises(CslError) as caught:
        parser.parse(text, "t.csl", 0)
    assert caught.value.at is not None
    assert (caught.value.at.line, caught.value.at.column) == (line, column)
    assert words in caught.value.text


@pytest.mark.parametrize(
    ("text", "message", "construct"),
    [
        ("const P = opaque { a: u16 };", "unexpected 'a' after '{'", "const P = opaque { a: u16 };"),
        ("fn f() void { defer g(); }", "unexpected 'g' after 'defer'", "defer g();"),
        ("var  a: ?u16 = null;", "unexpected character '?'", "var a: ?u16 = null;"),
        ("fn f() void {\n  x = 1 +% " + "2" * 80 + ";\n}", "unexpected", f"x = 1 +% {'2' * 51}.."),
    ],
)
def test_what_the_grammar_does_not_know_is_shown(text: str, message: str, construct: str) -> None:
    with pytest.raises(CslError) as caught:
        parser.parse(text, "t.csl", 0)
    assert caught.value.text.startswith(message)
    assert construct in caught.value.hint


def test_deeply_nested_parentheses_parse() -> None:
    assert isinstance(expression("(" * 5000 + "1" + ")" * 5000), tree.IntegerLiteral)


def test_too_long_texts_are_refused() -> None:
    with pytest.raises(CslError, match="at most"):
        parser.parse(" " * (parser.MAX_TEXT + 1), "t.csl", 0)


def test_tables_are_made_once_and_damaged_ones_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    made = 0

    def load(*arguments: Any) -> Any:
        nonlocal made
        made += 1
        return load_grammar(*arguments)

    monkeypatch.setattr("lark.lark.load_grammar", load)
    monkeypatch.setattr(parser, "FOLDER", tmp_path)
    file, fresh = tmp_path / parser.TABLES_FILE, parser._parser.__wrapped__
    parsers: list[Any] = []
    monkeypatch.setattr(parser, "_parser", lambda: parsers[-1])
    for damage, count in ((None, 1), (None, 1), (100, 2), (0, 3), (None, 3)):
        if damage is not None:
            file.write_bytes(file.read_bytes()[:damage])
        parsers.append(fresh())
        assert shape(expression("1 + 2 * a")) == "(1 + (2 * a))"
        assert made == count


@pytest.mark.parametrize("is_whole", [True, False])
def test_tables_come_with_the_package(is_whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (path,) = shipping.make(tmp_path)
    made = path.stat().st_mtime_ns
    assert shipping.make(tmp_path) == [path]
    assert path.stat().st_mtime_ns == made
    if not is_whole:
        path.write_bytes(path.read_bytes()[:-100])
    monkeypatch.setattr(parser, "FOLDER", tmp_path)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "kept"))
    (tmp_path / "kept").mkdir()
    found = parser._parser.__wrapped__()
    monkeypatch.setattr(parser, "_parser", lambda: found)
    assert shape(expression("1 + 2 * a")) == "(1 + (2 * a))"
    with pytest.raises(CslError, match="expected"):
        expression("1 + ;")
    assert bool(list((tmp_path / "kept").iterdir())) is not is_whole
