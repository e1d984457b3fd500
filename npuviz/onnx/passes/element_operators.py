"""Lists elementwise operators, for passes that change the layout of elements around them."""

ALONE = frozenset(
    ("Abs", "Acos", "Asin", "Atan", "Cast", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor",
     "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "Mish", "Neg", "Not", "Reciprocal",
     "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Swish",
     "Tan", "Tanh", "ThresholdedRelu")
)  # fmt: skip
"""Elementwise operators of one tensor."""
WITH_NUMBERS = frozenset(("Clip", "QuantizeLinear", "DequantizeLinear"))
"""Elementwise operators of one tensor if their other inputs are single numbers."""
PAIRS = frozenset(("Add", "Div", "Max", "Min", "Mul", "Pow", "PRelu", "Sub"))
"""Elementwise operators of two tensors, one of which may be broadcast."""
