"""Keep tables of rules, the functions that handle node classes and builtins; rules enter themselves."""

from collections.abc import Callable, Hashable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Rule = TypeVar("Rule")


class Rules(dict[Key, Rule]):
    """A table key -> rule."""

    def rule(self, *keys: Key) -> Callable[[Rule], Rule]:
        """Make a decorator that enters a function as the rule of these keys."""

        def enter(rule: Rule) -> Rule:
            self.update(dict.fromkeys(keys, rule))
            return rule

        return enter
