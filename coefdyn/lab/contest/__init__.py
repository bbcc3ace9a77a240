"""Contests: a row and its predecessor on a task that separates them, trained in the chapter.

    from coefdyn.lab.contest import CONTESTS

    result = CONTESTS["deltanet"].run()
    result.figure()

One seed and a small size decide nothing in general; what was decided at which size is the book's
evidence. A contest shows the failure and what mends it.
"""

from coefdyn.lab.contest.catalogue import CONTESTS, TASKS, ContestTask
from coefdyn.lab.contest.contest import Contest, ContestResult, Entrant, Trained, guessing
from coefdyn.lab.contest.standard import standard_words

__all__ = [
    "CONTESTS",
    "TASKS",
    "Contest",
    "ContestResult",
    "ContestTask",
    "Entrant",
    "Trained",
    "guessing",
    "standard_words",
]
