"""Which cases of a large product are left to `make test-slow`."""

import pytest


def slow_except(quick, cases):
    """Parameters, all of them slow but those named; a dict has the cases by their names."""
    named = cases if isinstance(cases, dict) else {str(case): case for case in cases}
    unknown = set(map(str, quick)) - set(named)
    assert not unknown, f"no such cases: {unknown}"
    return [
        pytest.param(case, id=name, marks=() if name in map(str, quick) else pytest.mark.slow)
        for name, case in named.items()
    ]
