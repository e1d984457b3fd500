"""The form of ONNX models for the systolic machine."""

from npuviz.onnx.model_form import ModelForm
from npuviz.onnx.passes.contrib.expand import in_plain_form
from npuviz.targets.systolic.compiler.operators.families import LOWERINGS

FORM = ModelForm(
    whole=in_plain_form(LOWERINGS.keys(), picks_rows=True),
    float_weights=True,
    # Measured: 32,768 weights take 1.2 times as long as on the Host, 73,728 a 1.6th.
    dynamic_weights=3 << 14,
    # Measured: one of 11,000 elements is faster than the Host, one of 500,000 takes 7 times as long.
    selection_elements=1 << 15,
)
