"""The choice of groups; a configured name that no example has is likely a mistake."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onlinesrl.core.errors import DataError, printable

NOTED = 64
"""How many groups, besides the configured ones, are remembered for messages."""


class Choice:
    """The groups in ``only`` (None: all) and not in ``without``; an example may have none."""

    def __init__(self, only: Sequence[str] | None = None, without: Sequence[str] | None = None):
        self.only = None if only is None else frozenset(only)
        self.without = frozenset(without or ())
        self.named = self.without | (self.only or frozenset())
        self.met: dict[str | None, None] = {}
        self.examples = 0

    @property
    def all(self) -> bool:
        """Whether every group is chosen."""
        return self.only is None and not self.without

    def note(self, groups: Sequence[str | None]) -> None:
        """Note the groups of examples."""
        self.examples += len(groups)
        for group in dict.fromkeys(groups):
            if group not in self.met and (len(self.met) < NOTED or group in self.named):
                self.met[group] = None

    def takes(self, group: str | None) -> bool:
        """Note an example's group; return whether it is chosen."""
        self.note([group])
        return self.has(group)

    def has(self, group: str | None) -> bool:
        """Tell whether a group is chosen."""
        return group not in self.without and (self.only is None or group in self.only)

    def complaints(self) -> list[str]:
        """Return messages about configured groups that no example had so far."""
        complaints = []
        for key, names in (("only", self.only or ()), ("without", self.without)):
            missing = ", ".join(sorted(set(names) - self.met.keys()))
            if missing and self.met:
                complaints.append(
                    printable(f"source.{key}: no example of {missing}; {self._there()}")
                )
        return complaints

    def _there(self) -> str:
        names = sorted(group for group in self.met if group is not None)
        listed = [*names[:NOTED], *(["..."] if len(self.met) >= NOTED else [])]
        none = ["examples without a group"] if None in self.met else []
        return f"there are {', '.join(listed + none)}"

    def check(self) -> None:
        """Raise DataError if there were examples and none was chosen."""
        if self.met and not any(map(self.has, self.met)):
            reasons = "\n".join(self.complaints()) or self._there()
            raise DataError(f"none of the source's examples is chosen\n{reasons}")

    def save(self) -> list[str | None]:
        """Return the groups met, as JSON can hold them."""
        return [*self.met]

    def restore(self, groups: Iterable[str | None]) -> None:
        """Add what ``save`` returned to the groups met."""
        self.met = dict.fromkeys([*groups, *self.met])
