"""Brings sampled copies from a worker into the store: by a writer process of the gateway's own, or in process."""
