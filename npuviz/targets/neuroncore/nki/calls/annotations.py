"""What kernels write as types of their parameters."""

from typing import Any


class _Annotation:
    """nt.tensor, nt.tensor[shape]."""

    def __getitem__(self, shape: Any) -> "_Annotation":
        return self

    def __call__(self, value: Any = None) -> Any:
        return value


tensor, mutable_tensor, mutable, scalar = (_Annotation() for _ in range(4))
