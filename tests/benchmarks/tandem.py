"""One run of tandem inference on a friendship model: ``tandem.py BLOCKS FOLDER`` prints it as JSON.

1080 people in BLOCKS blocks of one size, all pairs of people to be inferred, the rules of PSL's
friendship example: 17 blocks make 5 million ground potentials, 5 make 50 million.
"""

import json
import resource
import sys
from pathlib import Path

import numpy as np

from onlinesrl.psl.ground.form_assembly import Listing
from onlinesrl.psl.ground.grounder import Grounder
from onlinesrl.psl.inference.tandem import Tandem
from onlinesrl.psl.lang.data import AtomTable, Database, Relation
from onlinesrl.psl.lang.reader import parse

PEOPLE = 1080
RULES = """
1: Block(P1, A) & Block(P2, A) & Similar(P1, P2) & P1 != P2 -> Friends(P1, P2) ^2
1: Block(P1, A) & Block(P2, A) & Block(P3, A) & Friends(P1, P2) & Friends(P2, P3)
   & P1 != P2 & P2 != P3 & P1 != P3 -> Friends(P1, P3) ^2
1: Block(P1, A) & Block(P2, A) & Friends(P1, P2) & P1 != P2 -> Friends(P2, P1) ^2
0.1: !Friends(P1, P2) ^2
"""


def database(blocks: int, of_people: int = PEOPLE) -> Database:
    """The data: three pairs in ten are similar, by a number from 0 to 1."""
    random = np.random.default_rng(0)
    people = np.arange(of_people, dtype=np.int32)
    pairs = np.stack((np.repeat(people, of_people), np.tile(people, of_people)))
    pairs = pairs[:, pairs[0] != pairs[1]]
    n = pairs.shape[1]
    similar = np.where(random.random(n) < 0.3, random.random(n), 0.0)
    block = of_people + random.permutation(people) % blocks
    none = AtomTable(np.empty((2, 0), np.int32), np.empty(0))
    relations = {
        "Block": Relation(AtomTable(np.stack((people, block)), np.ones(of_people)), none, none),
        "Similar": Relation(AtomTable(pairs, similar), none, none),
        "Friends": Relation(none, AtomTable(pairs, np.full(n, np.nan)), none),
    }
    return Database(tuple(map(str, range(of_people + blocks))), relations)


def main(blocks: int, folder: Path) -> None:
    program = parse(RULES, declared={"Block": 2, "Similar": 2, "Friends": 2})
    weights = np.array([rule.weight for rule in program.rules])
    listing, inactive = Listing(database(blocks)), np.zeros(len(weights), np.int64)
    models = Grounder(program, most=10**9).models(listing, inactive)
    found = Tandem(folder).solve(models, listing.n_variables, weights)
    kept = {name: value for name, value in vars(found).items() if name != "y"}
    kept["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(kept))


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    main(int(sys.argv[1]), Path(sys.argv[2]))
