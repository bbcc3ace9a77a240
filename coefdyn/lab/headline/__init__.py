"""The headline claims: some twenty, each with its kind, its test and what limits it.

``claims`` has them as data, in the terms of ``claim``; ``runs`` what is trained for them, ``group``
a group of these runs as an experiment; ``judge`` is the one judge, and the picture of the verdicts
is ``coefdyn.lab.pages.headlines``. Trained claims are judged on twelve fresh seeds or more, once
all are there; their thresholds were committed before the first run. Proved and timed claims name
what shows them. ``fresh`` has the parts of claims that ended undecided, ``former`` these claims
themselves, and ``power`` what their seeds decide.
"""
