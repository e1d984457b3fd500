"""Operators that treat each element by itself, for passes that change how the elements lie around them."""

ALONE = frozenset(
    ("Abs", "Acos", "Asin", "Atan", "Cast", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor",
     "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "Mish", "Neg", "Not", "Reciprocal",
     "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Swish",
     "Tan", "Tanh", "ThresholdedRelu")
)  # fmt: skip
"""Of one tensor."""
WITH_NUMBERS = frozenset(("Clip", "QuantizeLinear", "DequantizeLinear"))
"""Those whose other inputs are single numbers, or are not taken."""
PAIRS = frozenset(("Add", "Div", "Max", "Min", "Mul", "Pow", "PRelu", "Sub"))
"""Of two tensors, one of which may repeat."""
