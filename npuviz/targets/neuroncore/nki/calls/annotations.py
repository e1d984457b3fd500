"""What kernels write as types of their parameters."""

from typing import Any


class _Annotation:
    """nt.tensor, nt.tensor[shape]."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"nt.{self._name}"

    def __getitem__(self, shape: Any) -> "_Annotation":
        return self

    def __call__(self, value: Any = None) -> Any:
        return value


tensor, mutable_tensor, mutable, scalar = map(_Annotation, ("tensor", "mutable_tensor", "mutable", "scalar"))
