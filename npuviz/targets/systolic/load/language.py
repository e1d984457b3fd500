"""From the files of a language model to a compiled program in true mode."""

from npuviz.base.progress import Progress
from npuviz.formats.onnxim.home import OnnximHome
from npuviz.formats.onnxim.workloads import ModelEntry, read_language_model, read_trace
from npuviz.targets.systolic.compiler.compiled import Compiled
from npuviz.targets.systolic.compiler.language.compile import TrueLanguageCompiler
from npuviz.targets.systolic.compiler.parity.language import check_language_entry
from npuviz.targets.systolic.load.parity import DEFAULT_TRACE
from npuviz.targets.systolic.spec import SystolicSpec


def load_language(
    entry: ModelEntry, home: OnnximHome, spec: SystolicSpec, progress: Progress, *, dram: int = 0
) -> Compiled:
    """Read model file and request trace, and compile them. Raises FormatError, TargetError."""
    check_language_entry(entry)
    model = read_language_model(home.language_model(entry.name))
    trace = read_trace(home.trace(entry.trace_file or DEFAULT_TRACE))
    return TrueLanguageCompiler(model, spec, entry, trace).compile(dram, progress)
