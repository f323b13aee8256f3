"""Optional auditors of what a model thinks before it answers, in streams of their own."""
