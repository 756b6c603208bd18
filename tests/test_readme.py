"""The example in the README runs as it is written."""

import re
from pathlib import Path

import numpy as np


def test_example_in_the_readme_runs():
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    names = {}
    exec(example, names)
    km = names["km"]
    np.testing.assert_array_equal(km.labels_, km.predict(names["X"]))
    assert len(km.top_terms(5)) == 50
