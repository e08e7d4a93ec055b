"""The compilation of kernels by numba's passes: called functions are linked before optimisation.

Numba optimises each function by itself, and again in each function that calls it. A kernel calls a hundred
functions, so here they are optimised once, together with the kernel.
"""

from __future__ import annotations

from typing import Any

from llvmlite.binding import Linkage, create_pass_builder, create_pipeline_tuning_options
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typed_passes import (
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import FixupArgs, IRProcessing, ReconstructSSA, TranslateByteCode


class _KernelLibrary(JITCodeLibrary):
    """The code of a kernel with the functions that it calls, optimised once."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        options = create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = options.slp_vectorization = True
        options.loop_unrolling = options.loop_interleaving = False  # slow, without a faster kernel
        builder = create_pass_builder(self._codegen._tm, options)
        builder.getModulePassManager().run(self._final_module, builder)


class _PartLibrary(_KernelLibrary):
    """The code of a function that kernels link, which is not optimised by itself."""

    def finalize(self) -> None:
        for function in self.get_defined_functions():
            if function.linkage == Linkage.external:
                function.linkage = "linkonce_odr"
        self._finalize_dynamic_globals()
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        self._ensure_finalized()
        return self._final_module


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerKernel(NativeLowering):
    """Lower to a ``_KernelLibrary``."""

    _name = "onlinesrl_kernel"

    def run_pass(self, state: Any) -> bool:
        state.library = _KernelLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerPart(NativeLowering):
    """Lower to a ``_PartLibrary``, which gets no machine code by itself."""

    _name = "onlinesrl_part"

    def run_pass(self, state: Any) -> bool:
        part = state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = state.flags.no_cfunc_wrapper = True
        super().run_pass(state)

        def key() -> None:
            """Stand for the part where numba looks for its address."""

        libraries = [*dict.fromkeys([part, *part._linking_libraries])]
        state.targetctx.insert_user_function(key, state["cr"].fndesc, libraries)
        state["cr"] = state["cr"]._replace(cfunc=key)
        return True


def _passes(lower: Any) -> PassManager:
    """Return the passes that kernels need: they have no closures, exceptions, generators or objects."""
    passes = PassManager("onlinesrl")
    for step in (
        TranslateByteCode,
        FixupArgs,
        IRProcessing,
        ReconstructSSA,
        NopythonTypeInference,
        PreLowerStripPhis,
        lower,
        NoPythonBackend,
    ):
        passes.add_pass(step, step._name)
    passes.finalize()
    return passes


class KernelCompiler(CompilerBase):
    """Compiles functions that Python calls, with their parts."""

    def define_pipelines(self) -> list[Any]:
        """Return the passes."""
        return [_passes(_LowerKernel)]


class PartCompiler(CompilerBase):
    """Compiles functions that only kernels call."""

    def define_pipelines(self) -> list[Any]:
        """Return the passes."""
        return [_passes(_LowerPart)]
