"""Files to deploy biasgate with, as `biasgate deploy write` hands them out."""
