"""The lab: tasks, training and experiments of the book. It imports the library, never the reverse.

Tasks, training, experiments, films of training runs, and the writers
of the book's generated pages. ``python -m coefdyn.lab list`` names the experiments.
"""
