"""What the gateway costs, beside its peers: `python -m tools.bench.gateway`. No test asserts any of it."""
