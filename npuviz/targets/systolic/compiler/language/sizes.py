"""Widths of a language model on one chip, after tensor and pipeline parallelism. Ref: systolic.md section 14.

Parallel chips divide heads and widths, and layers; communication between them is not modelled.
"""

from dataclasses import dataclass

from npuviz.base.errors import TargetError
from npuviz.formats.onnxim.workloads import LanguageModel


@dataclass(frozen=True, slots=True)
class LanguageSizes:
    """One chip's share of a model.

    hidden      features of a token between the layers (whole on every chip)
    attention   features of the attention's result, and inputs of the projection
    cache_width, append_width  features of K (or V) of a token in the cache, and of what KV append handles:
                ONNXim does not divide them (flaw F27); `kv_width` is the chip's share
    """

    heads: int
    kv_heads: int
    head_size: int
    hidden: int
    attention: int
    kv_width: int
    qkv_width: int
    ffn_inner: int
    ffn_width: int
    cache_width: int
    append_width: int
    num_layers: int
    num_simulated: int

    @classmethod
    def of(cls, model: LanguageModel) -> "LanguageSizes":
        """Compute the sizes of a model on one chip. Raises TargetError if the parallel chips do not divide
        them evenly."""
        share = model.tensor_parallel_size
        for name, value in (
            ("num_attention_heads", model.num_attention_heads),
            ("num_kv_heads", model.num_kv_heads),
            ("intermediate_size", model.intermediate_size),
        ):
            if value % share:
                raise TargetError(
                    f"tensor_parallel_size {share} does not divide {name} {value}; choose one that does"
                )
        layers = max(1, model.num_hidden_layers // model.pipeline_parallel_size)
        return cls(
            heads=model.num_attention_heads // share,
            kv_heads=model.num_kv_heads // share,
            head_size=model.head_size,
            hidden=model.hidden_size,
            attention=model.hidden_size // share,
            kv_width=model.kv_width // share,
            qkv_width=model.qkv_width // share,
            ffn_inner=model.intermediate_size // share,
            ffn_width=model.ffn_width // share,
            cache_width=model.kv_width,
            append_width=model.qkv_width,
            num_layers=layers,
            num_simulated=1 if model.run_single_layer else layers,
        )

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return shapes of the weights of one layer, in the order of registration."""
        h, a, q, f, i = self.hidden, self.attention, self.qkv_width, self.ffn_width, self.ffn_inner
        return {
            "ln1.weight": (h,),
            "ln1.bias": (h,),
            "qkv.weight": (h, q),
            "qkv.bias": (q,),
            "projection.weight": (a, h),
            "projection.bias": (h,),
            "ln2.weight": (h,),
            "ln2.bias": (h,),
            "fc1.weight": (h, f),
            "fc1.bias": (f,),
            "fc2.weight": (i, h),
            "fc2.bias": (h,),
        }
