"""The dashboard's worker with the kernels of other tests, and as patient as they are."""

from onlinesrl.commands.dashboard import worker
from tests.support.shapes import same_for_all_plans
from tests.support.waiting import PATIENCE

NAME = "tests.support.dashboard_worker"

if __name__ == "__main__":
    same_for_all_plans()
    worker.NICE, worker.SECONDS = 0, int(PATIENCE)
    worker.main()
