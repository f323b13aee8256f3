"""Trains the head of a filter's classifier: examples, their embeddings, and what it does on those held out."""
