"""Keep a list of listeners: the only way in which lower layers tell upper ones that something changed."""

from collections.abc import Callable
from typing import Generic, TypeVarTuple, Unpack

Args = TypeVarTuple("Args")


class Notifier(Generic[*Args]):
    """Calls every subscribed function, in the order of subscription, in the caller's thread."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[Unpack[Args]], None]] = []

    def subscribe(self, listener: Callable[[Unpack[Args]], None]) -> Callable[[], None]:
        """Add a listener; the returned function removes it again."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def notify(self, *args: *Args) -> None:
        """Call all listeners. A listener may unsubscribe itself while being called."""
        for listener in tuple(self._listeners):
            listener(*args)
