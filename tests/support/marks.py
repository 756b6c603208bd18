"""Which cases of a large product are left to `make test-slow`."""

from itertools import combinations, product

import pytest

from support.levels import AVAILABLE


def slow_except(quick, cases):
    """Parameters, all of them slow but those named; a dict has the cases by their names."""
    named = cases if isinstance(cases, dict) else {str(case): case for case in cases}
    unknown = set(map(str, quick)) - set(named)
    assert not unknown, f"no such cases: {unknown}"
    return [
        pytest.param(case, id=name, marks=() if name in map(str, quick) else pytest.mark.slow)
        for name, case in named.items()
    ]


def covering(strength=2, **axes):
    """Parametrize by all combinations of some axes, each a list of values or a dict of them by
    name. Those that add no new pair of values (or three of them, by `strength`) are slow.

    Cases of a SIMD level that is not here would be skipped, so they cover nothing: all are slow.
    """
    named = {
        axis: values if isinstance(values, dict) else {str(value): value for value in values}
        for axis, values in axes.items()
    }
    cases = list(product(*named.values()))
    missing = {level for level, available in AVAILABLE.items() if not available}
    run = [case for case in cases if "simd" not in axes or not missing & set(case)]
    quick = _covering(run, strength)
    parameters = [
        pytest.param(
            *(values[name] for values, name in zip(named.values(), case, strict=True)),
            id="-".join(case),
            marks=() if case in quick else pytest.mark.slow,
        )
        for case in cases
    ]
    indirect = [axis for axis in axes if axis == "simd"]  # a fixture
    return pytest.mark.parametrize(list(axes), parameters, indirect=indirect)


def _covering(cases, strength):
    """Some of the cases, in which all occur that `strength` axes can have at a time: those first
    that have most of it to add."""
    groups = list(combinations(range(len(cases[0])), strength))
    parts = {case: {(group, *(case[axis] for axis in group)) for group in groups} for case in cases}
    chosen, seen = set(), set()
    for least in range(len(groups), 0, -1):
        for case, has in parts.items():
            if len(has - seen) >= least:
                chosen.add(case)
                seen |= has
    return chosen
