"""Tables of rules that enter themselves: the functions that handle node classes and builtins."""

from collections.abc import Callable, Hashable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Rule = TypeVar("Rule")


class Rules(dict[Key, Rule]):
    """Key -> rule."""

    def rule(self, *keys: Key) -> Callable[[Rule], Rule]:
        """Decorator: enter the function as the rule of these keys."""

        def enter(rule: Rule) -> Rule:
            self.update(dict.fromkeys(keys, rule))
            return rule

        return enter
