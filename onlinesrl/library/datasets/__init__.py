"""Small data sets that come with the package: a model, what it predicts, and examples with their truth.

They need no network, so code that uses them runs wherever the package is installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files

from onlinesrl.core.example import Example
from onlinesrl.library.model import Model
from onlinesrl.library.streams import read


@dataclass(frozen=True)
class Dataset:
    """What a learner takes: a model, the predicate to predict, and examples in the order of their stream."""

    model: Model
    query: str
    examples: tuple[Example, ...]

    def __repr__(self) -> str:
        return f"<Dataset of {len(self.examples):,} examples: predict {self.query}>"


@cache
def citations() -> Dataset:
    """Return 252 bibliographic references, whose words are to be labelled as author, title or venue.

    They are the reference lists of four papers, 5,448 tokens in all; an example's ``group`` is its paper.

    >>> citations()
    <Dataset of 252 examples: predict InField>
    >>> citations().examples[0].truth["InField"][0]
    [0, 'author']
    """
    with as_file(files(__name__)) as folder:
        model = Model.read(folder / "citations.mln")
        return Dataset(model, "InField", (*read(folder / "citations.jsonl"),))
