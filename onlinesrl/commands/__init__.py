"""The commands of the command line; what a command needs is imported when it is called."""

import os

# Before numpy is imported. Its sums are then the same on every machine, and no process starts threads for
# matrices that are multiplied nowhere.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
