"""Mixed traffic with faults through a real `biasgate serve`, and the exact accounts afterwards: `make soak`."""
