"""Mode exact: the probability of each answer, read from log-probabilities instead of one sampled reply."""
