"""What `make` runs: execute chapters, normalise notebooks, build the pages, hold the pins."""
