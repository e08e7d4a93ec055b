"""Add to citations where similar citations say that a field may begin.

usage: joint.py IN.jsonl OUT.jsonl

IN.jsonl is a stream of citations, such as streams/papers/convert.py writes. After Poon & Domingos (2007):
the atom JntInfCandidate(i) says that the three words from token i on also stand in an earlier citation of
the stream, after punctuation there, and not after punctuation here. Nothing is taken from labels or from
later citations.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

LENGTH = 3
"""How many words must be the same."""


def joint(citations: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the citations with what those before them say."""
    begun: set[tuple[str, ...]] = set()
    for citation in citations:
        after, other = starts(citation)
        found = [[i] for i, words in other.items() if words in begun]
        evidence = citation["evidence"] | ({"JntInfCandidate": found} if found else {})
        yield citation | {"evidence": evidence}
        begun |= {*after.values()}


def starts(citation: dict[str, Any]) -> tuple[dict[int, tuple[str, ...]], ...]:
    """Return the words from every token on but the first: after punctuation, and elsewhere."""
    evidence = citation["evidence"]
    words = [word for word, _ in evidence["Token"]]
    punctuated = {i + 1 for (i,) in evidence.get("HasPunc", ())}
    ngrams = {i: tuple(words[i : i + LENGTH]) for i in range(1, len(words) - LENGTH + 1)}
    return (
        {i: of for i, of in ngrams.items() if i in punctuated},
        {i: of for i, of in ngrams.items() if i not in punctuated},
    )


def main(source: Path, out: Path) -> None:
    """Read the one file, and write the other."""
    citations = map(json.loads, source.read_text(encoding="utf-8").splitlines())
    out.write_text("".join(f"{json.dumps(c)}\n" for c in joint(citations)), encoding="utf-8")


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
