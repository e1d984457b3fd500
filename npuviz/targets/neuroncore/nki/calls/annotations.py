"""What kernels write as types of their parameters."""

from typing import Any


class _Annotation:
    """nt.tensor, nt.tensor[shape]."""

    def __init__(self, name: str, shape: tuple[int, ...] | None = None) -> None:
        self._name = name
        self.shape = shape

    def __repr__(self) -> str:
        return f"nt.{self._name}"

    def __getitem__(self, shape: Any) -> "_Annotation":
        sizes = shape if isinstance(shape, tuple | list) else (shape,)
        is_known = all(isinstance(size, int) for size in sizes)
        return _Annotation(self._name, tuple(sizes) if is_known else None)

    def __call__(self, value: Any = None) -> Any:
        return value


tensor, mutable_tensor, mutable, scalar = map(_Annotation, ("tensor", "mutable_tensor", "mutable", "scalar"))
