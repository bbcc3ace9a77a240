"""The lab: what the book's evidence is made with. It imports the library; the library never does.

Tasks, training, experiments, films of training runs, and the writers
of the book's generated pages. ``python -m coefdyn.lab list`` names the experiments.
"""
