"""A format of one file, as docs/adding/format.md describes it: baskets of numbered products."""

import numpy as np

from sparsecluster.formats.source import Block, Option, ReadError, Source


class BasketSource(Source):
    """Lines of product numbers, from 0; a product that is there twice counts twice."""

    options = (Option("separator", "What stands between two products.", default=" "),)

    def __init__(self, path, *, separator=" "):
        super().__init__(path)
        self.separator = separator

    def blocks(self):
        indptr, indices, counts = [0], [], []
        for number, line in enumerate(self.path.read_text().splitlines()[1:], 2):
            try:
                basket = np.array(line.split(self.separator), dtype=np.int32)
            except ValueError:
                raise ReadError(f"{self.path}, line {number}: not numbers of products.") from None
            columns, times = np.unique(basket, return_counts=True)
            indices.append(columns)
            counts.append(times)
            indptr.append(indptr[-1] + len(columns))
        yield Block(
            indptr=np.array(indptr, dtype=np.int64),
            indices=np.concatenate(indices).astype(np.int32),
            data=np.concatenate(counts).astype(np.float32),
        )
