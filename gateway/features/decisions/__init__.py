"""The auditor `decision`: questions that are answered by probabilities, asked again about another group."""
