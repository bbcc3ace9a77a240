"""Commands that write what a page shows, a short script each.

``python -m coefdyn.lab NAME`` starts the function ``main`` of a script with the arguments after its
name (``SCRIPTS`` of ``coefdyn.lab.__main__`` lists them); it returns the exit status.
"""
