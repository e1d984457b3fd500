"""The DRAM that a language model needs, and the least cycles of an iteration."""

from collections.abc import Sequence
from math import prod

from npuviz.base.errors import DoesNotFit
from npuviz.base.units import format_bytes
from npuviz.formats.onnxim.workloads import LanguageModel, ModelEntry
from npuviz.program.program import Note
from npuviz.targets.systolic.compiler.language.admission import Request
from npuviz.targets.systolic.compiler.language.sizes import LanguageSizes
from npuviz.targets.systolic.spec import SystolicSpec


class LanguageMemory:
    """The memory check of language mode (Ref: systolic.md section 14); `notes`: warnings."""

    def __init__(
        self, entry: ModelEntry, model: LanguageModel, sizes: LanguageSizes, spec: SystolicSpec
    ) -> None:
        self._entry = entry
        self._model = model
        self._sizes = sizes
        self._spec = spec
        self.notes: list[Note] = []

    def least_cycles(self) -> int:
        """Return the least core cycles of an iteration: those in which DRAM delivers every weight once."""
        sizes, config = self._sizes, self._spec.config
        elements = sum(prod(shape) for shape in sizes.weight_shapes().values() if len(shape) == 2)
        requests = elements * self._spec.precision * sizes.num_simulated // self._spec.req_size
        ticks = requests // config.dram_channels
        return ticks * self._spec.dram_period_ps // self._spec.core_period_ps

    def check_length(self, request: Request) -> None:
        """Raise DoesNotFit for a request longer than its caches."""
        if request.final_length > self._model.max_seq_length:
            raise DoesNotFit(
                f"request {request.number} of {request.final_length} tokens (cached, prompt and generated) "
                f"exceeds max_seq_length {self._model.max_seq_length} of {self._entry.name}"
            )

    def needed(self, active: Sequence[Request], batch: Sequence[Request]) -> int:
        """Return the bytes of weights, of the caches of the requests in flight, and of an iteration's
        activations."""
        sizes, model = self._sizes, self._model
        weights = sum(prod(shape) for shape in sizes.weight_shapes().values()) * sizes.num_layers
        caches = len(active) * 2 * model.max_seq_length * sizes.cache_width * sizes.num_layers
        tokens = sum(request.tokens for request in batch)
        activations = tokens * max(sizes.qkv_width, sizes.ffn_width)
        return (weights + caches + activations) * self._spec.precision

    def check(self, active: Sequence[Request], batch: Sequence[Request]) -> None:
        """Raise DoesNotFit if the needed bytes exceed `dram_size`; only add a note if check_mem_size is
        false."""
        size = self._spec.config.dram_size << 30
        need = self.needed(active, batch)
        if size == 0 or need <= size:
            return
        text = f"{self._entry.name} needs {format_bytes(need)} of DRAM, there are {format_bytes(size)}"
        if self._entry.check_mem_size:
            raise DoesNotFit(f"{text}; --set dram_size=0 or check_mem_size false runs it all the same")
        if not self.notes:
            self.notes.append(Note("warning", "memory", text))
