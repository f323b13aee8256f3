"""Questions to people about a text, and the meaning of their labels: forms, tasks, consensus, Label Studio's format."""
