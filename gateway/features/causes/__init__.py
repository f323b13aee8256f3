"""See `gateway.features.causes.feature`."""
