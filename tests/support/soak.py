"""Thousands of cases of a property, and what they were."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st


def soaked(
    check: Callable[[Any], str],
    strategy: st.SearchStrategy[Any],
    most: int,
    traits: Callable[[Any], Counter[str]],
) -> Counter[str]:
    """Check cases of a strategy; returns how many had each trait, and each outcome of the check."""
    tried: Counter[str] = Counter()

    @settings(
        derandomize=True,
        deadline=None,
        max_examples=most,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    @given(strategy)
    def each(case: Any) -> None:
        outcome = check(case)
        tried.update(["programs", f"outcome: {outcome}"])
        tried.update(traits(case))

    each()
    return tried
