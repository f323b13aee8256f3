"""Optional: training, distillation, REGARD-FT, the classifier head of a filter, the panel of judges."""
