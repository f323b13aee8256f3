"""Optional parts of the gateway, one folder each; see `gateway.feature`."""
