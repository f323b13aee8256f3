"""Starts `biasgate`: looks at what Python would import, then runs `gateway`."""
