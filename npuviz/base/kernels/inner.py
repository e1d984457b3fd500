"""Functions that only kernels call: machine code is made of them within the kernels, and nowhere else.

numba optimises each compiled function twice and makes machine code of it, all that it calls included, before
another may call it: of what lies deep in a chain of calls as often as the chain is long. That was more than
half of the time that a large kernel took to compile. Here each function is optimised once, and becomes part
of others from its direct callers upwards.
"""

from collections.abc import Callable
from typing import Any

import llvmlite.binding as _llvm
from numba import njit, types
from numba.core import codegen as _codegen
from numba.core import compiler as _compiler
from numba.core import typed_passes as _typed_passes
from numba.core import untyped_passes as _untyped_passes
from numba.core.compiler_machinery import register_pass

from npuviz.base.kernels.resolved import Resolved

JITCodeLibrary: Any = _codegen.JITCodeLibrary  # these stubs lack what is private
CompilerBase: Any = _compiler.CompilerBase
DefaultPassBuilder: Any = _compiler.DefaultPassBuilder
LowerResult: Any = vars(_compiler)["_LowerResult"]
untyped: Any = _untyped_passes
typed: Any = _typed_passes
NativeLowering: Any = typed.NativeLowering
Linkage: Any = _llvm.Linkage
_SHARED = (Linkage.external, Linkage.linkonce_odr)
"""Of functions that other modules may know."""
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
    """The LLVM module of one function, for the modules of its callers."""

    def finalize(self) -> None:
        """Optimise the function, with what it calls at hand to become part of it, and make no machine code.

        Unoptimised, large functions became 40 % more code in the kernel, and a wafer 6 % slower (measured).
        """
        self._raise_if_finalized()
        module = self._final_module
        own = {function.name for function in module.functions if not function.is_declaration}
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)  # noqa: SLF001
            module.link_in(_module_of(library), preserve=True)
        for function in module.functions:
            if function.linkage in _SHARED and function.name not in own and not function.is_declaration:
                # After inlining, LLVM drops those: their own modules bring them to the kernel.
                function.linkage = Linkage.available_externally
        passes, builder = self._codegen._module_pass_manager()  # noqa: SLF001
        passes.run(module, builder)
        for function in module.functions:
            if function.linkage == Linkage.external and not function.is_declaration:
                function.linkage = Linkage.linkonce_odr
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        """The function and all that it calls, for a kernel."""
        self._ensure_finalized()
        if self._shared_module is None:
            module = self._final_module.clone()
            # Callers first: of what may be in many modules LLVM links only what is asked for by then.
            for library in reversed(self._called({})):
                module.link_in(_module_of(library), preserve=True)
            self._shared_module = module
        return self._shared_module

    def _called(self, found: dict[Any, None]) -> dict[Any, None]:
        """Add the libraries of all that the function calls, each after those that it calls itself."""
        for library in self._linking_libraries:
            if library not in found:
                if isinstance(library, InnerLibrary):
                    library._called(found)  # noqa: SLF001
                found[library] = None
        return found


def _module_of(library: Any) -> Any:
    """The module of a function; of one that is not of this file, with all that it calls."""
    if isinstance(library, InnerLibrary):
        return library._final_module  # noqa: SLF001
    return library._get_module_for_linking()  # noqa: SLF001


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
    """numba's compiler with that one pass of its own, which looks up an operator on numbers once."""

    def __init__(self, typingctx: Any, *arguments: Any) -> None:
        super().__init__(typingctx, *arguments)
        self.state.typingctx = Resolved(typingctx)

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
