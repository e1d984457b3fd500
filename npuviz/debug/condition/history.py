"""Evaluate expressions with a memory: what changed, how long something held, what came before, how often."""

from typing import Any

from npuviz.debug.condition.expression import WHOLE_RUN, Expression, Key, Moment


class _Remembering(Expression):
    """Computes its value once a cycle and keeps what it needs for the next cycle under its slot."""

    def __init__(self, slot: Key, *children: Expression) -> None:
        self.slot, self.children = slot, children

    def value(self, moment: Moment) -> Any:
        """Return its value at a moment."""
        if self.slot not in moment.known:
            moment.known[self.slot] = self._next(moment)
        return moment.known[self.slot]

    def _next(self, moment: Moment) -> Any:
        raise NotImplementedError  # every subclass overrides it


class Changed(_Remembering):
    """Whether a value differs from (`changed`), is larger (`rises`) or smaller (`falls`) than a cycle ago."""

    is_truth = True

    def __init__(self, how: str, slot: Key, child: Expression) -> None:
        super().__init__(slot, child)
        self.how = how

    def _next(self, moment: Moment) -> Any:
        now, before = self.children[0].value(moment), moment.state.get(self.slot)
        moment.state[self.slot] = now
        if now is None or before is None:
            return False
        return bool(
            now > before if self.how == "rises" else now < before if self.how == "falls" else now != before
        )

    def pulses(self, moment: Moment) -> bool:
        """Whether it holds now because of something that holds for one cycle only."""
        return self.value(moment)

    def window(self) -> int:
        """Return the number of cycles before now that it depends on."""
        return 1 + super().window()


class Lasting(_Remembering):
    """Whether something has held in each of the last `cycles` cycles."""

    is_truth = True

    def __init__(self, cycles: int, slot: Key, child: Expression) -> None:
        super().__init__(slot, child)
        self.cycles = cycles

    def _next(self, moment: Moment) -> Any:
        if self.children[0].value(moment) is not True:
            moment.state[self.slot] = None
            return False
        since = moment.state.get(self.slot)
        if since is None:
            since = moment.state[self.slot] = moment.cycle
        due = since + self.cycles - 1
        if moment.cycle < due:
            moment.timers.add(due)
        return moment.cycle >= due

    def pulses(self, moment: Moment) -> bool:
        """Whether it holds now because of something that holds for one cycle only."""
        return False

    def window(self) -> int:
        """Return the number of cycles before now that it depends on."""
        return min(WHOLE_RUN, self.cycles + super().window())


class Within(_Remembering):
    """Whether something holds at most `cycles` cycles after (or together with) something else."""

    is_truth = True

    def __init__(self, cycles: int, slot: Key, later: Expression, earlier: Expression) -> None:
        super().__init__(slot, later, earlier)
        self.cycles = cycles

    def _next(self, moment: Moment) -> Any:
        later, earlier = (child.value(moment) for child in self.children)
        last, held = moment.state.get(self.slot, (None, False))
        if earlier is True:
            last = moment.cycle
        elif held:
            last = moment.cycle - 1  # it held until the cycle before
        moment.state[self.slot] = last, earlier is True
        if last is None:
            return False
        if earlier is not True and moment.cycle <= last + self.cycles:
            moment.timers.add(last + self.cycles + 1)
        return later is True and moment.cycle - last <= self.cycles

    def pulses(self, moment: Moment) -> bool:
        """Whether it holds now because of something that holds for one cycle only."""
        return self.children[0].pulses(moment)

    def window(self) -> int:
        """Return the number of cycles before now that it depends on."""
        return min(WHOLE_RUN, self.cycles + 1 + super().window())


class Count(_Remembering):
    """How often something has happened, or become true, since the first cycle."""

    def __init__(self, slot: Key, child: Expression) -> None:
        super().__init__(slot, child)

    def _next(self, moment: Moment) -> Any:
        child = self.children[0]
        holds = child.value(moment) is True
        count, held = moment.state.get(self.slot, (0, holds and not child.pulses(moment)))
        count += holds and (not held or child.pulses(moment))
        moment.state[self.slot] = count, holds
        return int(count)

    def pulses(self, moment: Moment) -> bool:
        """Whether it holds now because of something that holds for one cycle only."""
        return False

    def window(self) -> int:
        """Return the number of cycles before now that it depends on."""
        return WHOLE_RUN
