"""Functions that only kernels call: machine code is made of them within the kernels, and nowhere else.

numba optimises each compiled function twice and makes machine code of it, all that it calls included, before
another may call it: of what lies deep in a chain of calls as often as the chain is long. That was more than
half of the time that a large kernel took to compile.
"""

from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.core import codegen as _codegen
from numba.core import compiler as _compiler
from numba.core import typed_passes as _typed_passes
from numba.core import untyped_passes as _untyped_passes
from numba.core.compiler_machinery import register_pass

JITCodeLibrary: Any = _codegen.JITCodeLibrary  # these stubs lack what is private
CompilerBase: Any = _compiler.CompilerBase
DefaultPassBuilder: Any = _compiler.DefaultPassBuilder
LowerResult: Any = vars(_compiler)["_LowerResult"]
untyped: Any = _untyped_passes
typed: Any = _typed_passes
NativeLowering: Any = typed.NativeLowering
_NEEDLESS = {
    *(untyped.WithLifting, untyped.InlineClosureLikes, untyped.MakeFunctionToJitFunction),
    *(untyped.FindLiterallyCalls, untyped.LiteralUnroll, untyped.LiteralPropagationSubPipelinePass),
    *(untyped.RewriteDynamicRaises, typed.InlineOverloads, typed.NopythonRewrites),
    typed.DumpParforDiagnostics,
}
"""Passes for what such functions have none of: blocks of `with`, closures, literals to be unrolled, errors to
be made, sums of whole arrays. They found nothing, in some hundredths of the time."""
_compile: Any = njit
_register_pass: Any = register_pass


class InnerLibrary(JITCodeLibrary):
    """The LLVM module of one function, with all that it calls, for the modules of its callers."""

    def finalize(self) -> None:
        """Link what the function calls and optimise that once, and make no machine code.

        Unoptimised, large functions became 40 % more code in the kernel, and a wafer 6 % slower (measured).
        """
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)  # noqa: SLF001
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)  # noqa: SLF001
        passes, builder = self._codegen._module_pass_manager()  # noqa: SLF001
        passes.run(self._final_module, builder)
        self._finalized = True


@_register_pass(mutates_CFG=True, analysis_only=False)
class InnerLowering(NativeLowering):
    """numba's generation of LLVM's code, which makes no machine code of it."""

    _name = "inner_lowering"

    def run_pass(self, state: Any) -> bool:
        """Generate the module of the function, and let others call it."""
        state.library = InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        result = state["cr"]
        # Callers find the function by this object, which has to be a builtin one. To call it is a KeyError.
        stand_in = {}.__getitem__
        state.targetctx.insert_user_function(stand_in, result.fndesc, [state.library])
        state["cr"] = LowerResult(result.fndesc, result.call_helper, cfunc=stand_in, env=result.env)
        return True


class InnerCompiler(CompilerBase):
    """numba's compiler with that one pass of its own."""

    def define_pipelines(self) -> list[Any]:
        """One pipeline: numba's for compiled code, without what would find nothing."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        needed = [(one, why) for one, why in passes.passes if one not in _NEEDLESS]
        passes.passes = [(InnerLowering if one is NativeLowering else one, why) for one, why in needed]
        passes.finalize()
        return [passes]


def inner(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorator of a function that only kernels call; the options are those of numba."""
    decorate = _compile(
        nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=InnerCompiler, **options
    )
    return lambda function: _one_for_all_numbers(decorate(function))


def _one_for_all_numbers(function: Any) -> Any:
    """Have calls with a number, bare or in a tuple, take the code for any number of its type."""
    if not hasattr(function, "get_call_template"):
        return function  # nothing is compiled in this process
    get_call_template = function.get_call_template

    def get_template_of_types(args: Any, kws: Any) -> Any:
        return get_call_template(
            tuple(map(types.unliteral, args)), {name: types.unliteral(kind) for name, kind in kws.items()}
        )

    function.get_call_template = get_template_of_types
    return function
