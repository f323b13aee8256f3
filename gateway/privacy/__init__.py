"""What identifies a person leaves a text before it is stored, and what is stored can be sealed."""
