"""Names in the core: a type has one definition, which no compiler checks across files."""

import re
from collections import Counter
from pathlib import Path

CPP = Path(__file__).parents[2] / "cpp"
TYPE = re.compile(r"^(?:class|struct|enum class) (\w+)(?: final)?(?: : [^{;]*)? \{", re.MULTILINE)


def test_no_two_headers_define_types_of_the_same_name():
    found = Counter()
    for header in CPP.rglob("*.hpp"):
        found.update(TYPE.findall(header.read_text()))
    assert len(found) > 50
    assert [name for name, count in found.items() if count > 1] == []
