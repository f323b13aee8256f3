"""What people are asked about a text, and what their label means: forms, tasks, consensus, Label Studio's format."""
