"""The context of operator lowerings: the graph, the storage of tensors, the plan being made."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Graph, Node
from npuviz.program.program import TakesNotes
from npuviz.program.tensor import Tensor
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.compiler.tiling.choices import Asked, Choice, Choices, ProblemKey
from npuviz.targets.systolic.compiler.tiling.resources import Resources, round_up
from npuviz.targets.systolic.values.plan import Apply, LayerPlan, Product, ValuePlan, VectorFunction
from npuviz.targets.systolic.values.storage import FLOATS, Storage

Item = TypeVar("Item", bound=Hashable)


class _Pool:
    """Numbers distinct items from 0 on; items of `first` have the first indices."""

    def __init__(self, first: tuple[object, ...] = ()) -> None:
        self.items: list[object] = list(first)
        self._index: dict[Hashable, int] = {}

    def index(self, key: Hashable, item: object) -> int:
        found = self._index.get(key)
        if found is None:
            found = self._index[key] = len(self.items)
            self.items.append(item)
        return found


class Lowering(TakesNotes):
    """One compilation: operator lowerings read the graph here and write layers through `builder`.

    has_values  whether a plan for the values engine is made
    A lowering raises CannotLower before it opens a layer, or opens exactly the layers it needs.
    """

    def __init__(
        self,
        graph: Graph,
        storages: Sequence[Storage],
        resources: Resources,
        builder: ProgramBuilder,
        has_values: bool = True,
        choices: Choices | None = None,
    ) -> None:
        self.choices = choices or Choices()
        self._has_values = has_values
        self.graph = graph
        self.storages = storages
        self.resources = resources
        self.builder = builder
        super().__init__()
        self.layer_plans: list[LayerPlan] = []
        self._shapes = _Pool(((),))
        self._functions = _Pool()
        self._products = _Pool()
        self._orders = _Pool((((), ()),))

    # Tensors -----------------------------------------------------------------------------------

    def tensor(self, index: int) -> Tensor:
        """Return a tensor of the graph."""
        return self.graph.tensors[index]

    def storage(self, index: int) -> Storage:
        """Return the storage of a tensor."""
        return self.storages[index]

    def constant(self, index: int) -> np.ndarray | None:
        """Return the values of a constant tensor, or None (also for an absent input)."""
        return self.graph.constants.get(index) if index >= 0 else None

    def input(self, node: Node, position: int) -> int:
        """Return the tensor id of an input, -1 if it is absent."""
        return node.inputs[position] if position < len(node.inputs) else -1

    def require_floats(self, node: Node, tensors: Sequence[int]) -> None:
        """Raise CannotLower unless all tensors hold floating-point numbers and are not empty."""
        for index in tensors:
            tensor = self.tensor(index)
            if tensor.dtype not in FLOATS:
                raise CannotLower(f"{tensor.dtype} arithmetic is not what the vector unit does")
            if tensor.num_elements == 0:
                raise CannotLower(f"tensor {tensor.name} is empty")

    def choose(
        self, node: Node, key: ProblemKey, ranked: Sequence[tuple[int, ...]], fits: Callable[[Choice], bool]
    ) -> Choice | None:
        """Return how to cut a problem: by the choice made for it, if that fits, else by the best of `ranked`.

        None if nothing fits. Records the problem for the search of tilings.
        """
        asked = self.choices.asked.get(key)
        if asked is not None:
            asked.times += 1
        elif ranked:
            self.choices.asked[key] = Asked(node.id, tuple(Choice(sizes) for sizes in ranked))
        made = self.choices.made.get(key)
        if made is not None:
            if fits(made):
                return made
            self.note(
                "tilings", "a tiling of the file does not fit and was not used", node.id, is_warning=True
            )
        return Choice(ranked[0]) if ranked else None

    # Plan --------------------------------------------------------------------------------------

    def shape(self, shape: tuple[int, ...]) -> int:
        """Return the AUX word of a MOVIN whose entry is read in this shape."""
        return self._shapes.index(shape, shape) if self._has_values else 0

    def order(self, shape: tuple[int, ...], order: tuple[int, ...]) -> int:
        """Return the AUX word of a MOVOUT whose entry, read in `shape`, is stored with its axes in
        `order`."""
        if not self._has_values or order == tuple(range(len(order))):
            return 0
        return self._orders.index((shape, order), (shape, order))

    def function(self, key: Hashable, apply: Apply, name: str = "", accumulates: bool = False) -> int:
        """Return the AUX word of a vector instruction; `key` determines what `apply` computes."""
        if not self._has_values:
            return 0
        return self._functions.index((key, accumulates), VectorFunction(name or str(key), apply, accumulates))

    def product(self, product: Product) -> int:
        """Return the AUX word of the GEMM-type instructions of a template."""
        return self._products.index(len(self._products.items), product) if self._has_values else 0

    def add_layer(
        self, node: Node, inputs: Sequence[int], outputs: Sequence[int], is_host: bool = False
    ) -> None:
        """Record what the layer just written reads and writes (tensor ids; views give their root)."""
        self.layer_plans.append(LayerPlan(node.id, self._roots(inputs), self._roots(outputs), is_host))

    def _roots(self, tensors: Sequence[int]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self.storages[index].root for index in tensors if index >= 0))

    def plan(self) -> ValuePlan:
        """Return the finished plan."""
        return ValuePlan(
            storages=tuple(self.storages),
            layers=tuple(self.layer_plans),
            shapes=tuple(self._shapes.items),  # pyright: ignore[reportArgumentType]
            functions=tuple(self._functions.items),  # pyright: ignore[reportArgumentType]
            products=tuple(self._products.items),  # pyright: ignore[reportArgumentType]
            orders=tuple(self._orders.items),  # pyright: ignore[reportArgumentType]
            constants=self.graph.constants,
        )


@dataclass
class Half:
    """Hands out entries of one half, one behind the other, at multiples of the request size."""

    add: Callable[[Hashable, int, int], int]
    alignment: int
    capacity: int
    used: int = 0

    def __post_init__(self) -> None:
        self._words: dict[Hashable, int] = {}

    def entry(self, key: Hashable, size: int) -> int:
        """Return the operand word of the entry `key`, placed at its first use with its largest size."""
        word = self._words.get(key)
        if word is None:
            if self.used + size > self.capacity:
                raise CannotLower(f"a tile needs more than the {self.capacity} bytes of a half")
            word = self._words[key] = self.add(key, self.used, size)
            self.used += round_up(size, self.alignment)
        return word
