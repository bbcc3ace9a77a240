"""Running a model and taking down its mixers: traces of one pass, and the test of a whole model."""
