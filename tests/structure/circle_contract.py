"""The rule that no files import each other in a circle, as a contract type of import-linter."""

from typing import Any

from grimp import ImportGraph
from igraph import Graph
from importlinter import Contract, ContractCheck, output


def circles(graph: ImportGraph) -> list[list[str]]:
    """Groups of modules that reach each other by imports; late and type-only imports count."""
    modules = sorted(module for module in graph.modules if module.startswith("npuviz"))
    places = {module: place for place, module in enumerate(modules)}
    edges = [
        (places[module], places[imported])
        for module in modules
        for imported in graph.find_modules_directly_imported_by(module)
        if imported in places
    ]
    groups = Graph(len(modules), edges, directed=True).connected_components("strong")
    return [sorted(modules[place] for place in group) for group in groups if len(group) > 1]


class CircleContract(Contract):
    """No module of the package imports itself through others."""

    type_name = "no_circles"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Look for groups of modules that import each other."""
        found = circles(graph)
        return ContractCheck(kept=not found, metadata={"circles": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each circle."""
        metadata: Any = check.metadata
        for circle in metadata["circles"]:
            output.print_error(f"{len(circle)} modules import each other: {', '.join(circle)}", bold=False)
