"""Training in a page: the model, its gradient and its optimiser in plain JavaScript."""
