"""The data that a command is given: a file or store, several files, a pattern, a folder, or -."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from sparsecluster.formats.inputs import named, shown

# A name may begin with [, as patterns do, and is no JSON.
Data = Annotated[list[Path], Parameter(negative=(), json_list=False)]


class Inputs:
    """What was named as data."""

    def __init__(self, data: list[Path]) -> None:
        #: as `read` takes it
        self.given: Any = data[0] if len(data) == 1 else data
        #: for titles
        self.name = shown(self.given).name
        #: all that must not be written over
        self.paths = [path for one in data for path in named(one)]
        #: the file, where it is one
        self.path = self.paths[0] if len(self.paths) == 1 else None
