"""Training of the classifier that reads replies for refusals."""
