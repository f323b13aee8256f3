"""Projects of tasks that people label: who gets which, what they said, and what was decided where they differ."""
