"""The import rule for kernels, as a contract type of import-linter (see pyproject.toml)."""

from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output


def is_kernel_file(module: str) -> bool:
    """Whether a module may import numba: it lies in a folder `kernels`, or its name ends so."""
    *folders, name = module.split(".")
    return "kernels" in folders or name == "kernels" or name.endswith("_kernels")


class KernelContract(Contract):
    """numba is imported in kernel files only, and kernel files import nothing of npuviz but kernel files."""

    type_name = "kernels"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Look at every direct import of the package."""
        violations: list[str] = []
        for module in sorted(graph.modules):
            if not module.startswith("npuviz"):
                continue
            for imported in sorted(graph.find_modules_directly_imported_by(module)):
                if imported == "numba" and not is_kernel_file(module):
                    violations.append(f"{module} imports numba: move the code to a kernel file")
                if is_kernel_file(module) and imported.startswith("npuviz") and not is_kernel_file(imported):
                    violations.append(
                        f"{module} imports {imported}: a kernel file may import kernel files only"
                    )
        return ContractCheck(kept=not violations, metadata={"violations": violations})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print the violations."""
        metadata: Any = check.metadata
        for line in metadata["violations"]:
            output.print_error(line, bold=False)
