"""Where `biasgate` starts: looks at what Python would import, then runs `gateway`."""
