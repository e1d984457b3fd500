"""Names of operators and functions as kernels give them: functions of nl or numpy, or strings."""

from npuviz.targets.neuroncore.isa import Activation, Alu
from npuviz.targets.neuroncore.nki.record.errors import KernelError

OPERATORS: dict[str, Alu] = {
    "add": Alu.ADD, "subtract": Alu.SUBTRACT, "multiply": Alu.MULTIPLY, "divide": Alu.DIVIDE,
    "true_divide": Alu.DIVIDE, "maximum": Alu.MAXIMUM, "max": Alu.MAXIMUM, "amax": Alu.MAXIMUM,
    "minimum": Alu.MINIMUM, "min": Alu.MINIMUM, "amin": Alu.MINIMUM, "mod": Alu.MOD, "fmod": Alu.MOD,
    "remainder": Alu.MOD, "power": Alu.POWER, "equal": Alu.EQUAL, "not_equal": Alu.NOT_EQUAL,
    "greater": Alu.GREATER, "greater_equal": Alu.GREATER_EQUAL, "less": Alu.LESS,
    "less_equal": Alu.LESS_EQUAL, "logical_and": Alu.LOGICAL_AND, "logical_or": Alu.LOGICAL_OR,
    "logical_xor": Alu.LOGICAL_XOR, "bitwise_and": Alu.BITWISE_AND, "bitwise_or": Alu.BITWISE_OR,
    "bitwise_xor": Alu.BITWISE_XOR, "left_shift": Alu.LEFT_SHIFT, "right_shift": Alu.RIGHT_SHIFT,
    "logical_shift_left": Alu.LEFT_SHIFT, "logical_shift_right": Alu.RIGHT_SHIFT,
    "arithmetic_shift_right": Alu.ARITHMETIC_RIGHT_SHIFT, "invert": Alu.INVERT, "bitwise_not": Alu.INVERT,
    "abs": Alu.ABS, "absolute": Alu.ABS, "square": Alu.SQUARE, "relu": Alu.RELU, "rsqrt": Alu.RSQRT,
    "reciprocal": Alu.RECIPROCAL, "logical_not": Alu.LOGICAL_NOT, "abs_max": Alu.ABS_MAX,
    "abs_min": Alu.ABS_MIN, "average": Alu.AVERAGE,
    "sum": Alu.ADD, "prod": Alu.MULTIPLY, "bypass": Alu.BYPASS,
}  # fmt: skip
COMPARISONS = frozenset(("equal", "not_equal", "greater", "greater_equal", "less", "less_equal"))
FUNCTIONS: dict[str, Activation] = {
    "copy": Activation.COPY, "identity": Activation.COPY, "square": Activation.SQUARE,
    "sign": Activation.SIGN, "abs": Activation.ABS, "absolute": Activation.ABS,
    "sigmoid": Activation.SIGMOID, "tanh": Activation.TANH, "exp": Activation.EXP,
    "relu": Activation.RELU, "prelu": Activation.PRELU,
    "gelu": Activation.GELU, "gelu_dx": Activation.GELU_DX,
    "erf": Activation.ERF, "erf_dx": Activation.ERF_DX, "gelu_apprx_tanh": Activation.GELU_APPRX_TANH,
    "gelu_apprx_sigmoid": Activation.GELU_APPRX_SIGMOID,
    "gelu_apprx_sigmoid_dx": Activation.GELU_APPRX_SIGMOID_DX, "silu": Activation.SILU,
    "silu_dx": Activation.SILU_DX, "softplus": Activation.SOFTPLUS, "mish": Activation.MISH,
    "log": Activation.LOG, "sin": Activation.SIN, "arctan": Activation.ARCTAN, "sqrt": Activation.SQRT,
    "rsqrt": Activation.RSQRT, "reciprocal": Activation.RECIPROCAL,
}  # fmt: skip


def name_of(op: object) -> str:
    """The name of an operator that a kernel gives as a function or a string."""
    found = op if isinstance(op, str) else getattr(op, "__name__", "") or type(op).__name__
    return found.rpartition(".")[2]


def operator(op: object) -> Alu:
    """The ALU operator. Raises KernelError."""
    if op is None:
        return Alu.BYPASS
    found = OPERATORS.get(name_of(op))
    if found is None:
        raise KernelError(f"operator {name_of(op)!r} is none of the engines'")
    return found


def function(op: object) -> Activation:
    """The activation function. Raises KernelError."""
    found = FUNCTIONS.get(name_of(op))
    if found is None:
        raise KernelError(f"activation function {name_of(op)!r} is none that npuviz runs")
    return found
