"""Mode exact: the probability of each answer, read from log-probabilities instead of a single sampled reply."""
