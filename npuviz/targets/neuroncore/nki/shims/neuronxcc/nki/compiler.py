"""Stand-in for neuronxcc.nki.compiler."""

from npuviz.targets.neuroncore.nki.calls.entry_points import as_written, passed_through
from npuviz.targets.neuroncore.nki.calls.entry_points import psum_placement as psum
from npuviz.targets.neuroncore.nki.calls.entry_points import sbuf_placement as sbuf
from npuviz.targets.neuroncore.nki.calls.ordering import no_reorder
from npuviz.targets.neuroncore.nki.rules import names as _names

allocation_scope = force_auto_alloc = multi_buffer = passed_through
enable_stack_allocator = skip_middle_end_transformations = as_written
__all__ = [
    "allocation_scope", "enable_stack_allocator", "force_auto_alloc", "multi_buffer", "no_reorder", "psum",
    "sbuf", "skip_middle_end_transformations",
]  # fmt: skip
__getattr__ = _names.keep_public(globals(), "nki.compiler", tuple(__all__), (), 1)
