"""What the gateway costs, beside its peers: `python -m tests.bench.gateway`. No test asserts any of it."""
