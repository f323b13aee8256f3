"""How sampled copies get from a worker into the store: by a writer process of the gateway's own, or in process."""
