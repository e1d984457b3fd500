"""List the operators that the NPU may run, by kind."""

VIEWS = ("Flatten", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Cast")
"""Operators that change no element as it is stored; a Cast if both its types are stored alike."""
PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
PAIRS = ("Add", "Sum", "Sub", "Mul", "Div", "Max", "Min")
POOLS = ("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
OTHERS = (
    "BatchNormalization", "PRelu", "Slice", "Split", "Resize", "Upsample", "Transpose", "Gather", "Abs",
    "Neg", "Floor", "Ceil", "Clip", "Exp", "Log", "Sqrt", "Reciprocal", "Sin", "Cos", "Cosh", "Acos",
    "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Softsign", "Sign", "ThresholdedRelu", "Shrink", "Pow",
    "Softmax", "LogSoftmax", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceMean",
    "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp", "DepthToSpace",
    "SpaceToDepth", "Expand",
)  # fmt: skip
"""Operators of one tensor and constants."""
CONVERSIONS = ("QuantizeLinear", "DequantizeLinear")
LIMITS = ("Relu", "Clip")
RECURRENT = ("RNN", "GRU", "LSTM")
LOGIC = ("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or", "Where", "Xor")
"""Operators of booleans and floats, with as many operands as they have."""
DENSE = frozenset(
    (
        "Add", "AffineGrid", "AveragePool", "BatchNormalization", "CenterCropPad", "Col2Im", "Compress",
        "Concat", "Conv", "ConvTranspose", "CumSum", "DFT", "DepthToSpace", "Div", "Einsum", "Expand",
        "Flatten", "Gather", "GatherElements", "GatherND", "Gemm", "GlobalAveragePool", "GridSample",
        "Identity", "MatMul", "Mean", "Mul", "Neg", "Pad", "ReduceMean", "ReduceSum", "Reshape", "Resize",
        "ReverseSequence", "STFT", "Scatter", "ScatterElements", "ScatterND", "Slice", "SpaceToDepth",
        "Split", "Squeeze", "Sub", "Sum", "Tile", "Transpose", "Trilu", "Unsqueeze", "Upsample", "Where"
    )
)  # fmt: skip
"""Operators that may be linear in their run-time operands: small ones become a product with a matrix."""
