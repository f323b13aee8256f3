"""See `gateway.features.evaluations.feature`."""
