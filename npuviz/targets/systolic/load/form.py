"""The form of ONNX models for the systolic machine."""

from npuviz.onnx.model_form import ModelForm, Recurrence
from npuviz.onnx.passes.contrib.expand import in_plain_form
from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.systolic.compiler.operators.families import LOWERINGS
from npuviz.targets.systolic.compiler.placement import element_type
from npuviz.targets.systolic.compiler.tiling.recurrent import steps_at_once
from npuviz.targets.systolic.compiler.tiling.resources import resources_of
from npuviz.targets.systolic.spec import SystolicSpec


def form_for(spec: SystolicSpec) -> ModelForm:
    """The form for machines of this spec, whose memories decide which recurrent layers stay whole."""
    resources = resources_of(spec)
    item = numpy_dtype(element_type("float32", spec)).itemsize

    def is_whole(layer: Recurrence) -> bool:
        return steps_at_once(resources, layer, item) > 0

    return ModelForm(
        whole=in_plain_form(LOWERINGS.keys(), adds_rows=True),
        whole_recurrence=is_whole,
        float_weights=True,
        # Measured: 32,768 weights take 1.2 times as long as on the Host, 73,728 a 1.6th.
        dynamic_weights=3 << 14,
        # Measured: one of 11,000 elements is faster than the Host, one of 500,000 takes 7 times as long.
        selection_elements=1 << 15,
    )
