"""Tools behind `make`: execute chapters, normalise notebooks, build the pages, keep the pins."""
