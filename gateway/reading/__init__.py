"""What the API and the console show of the store: one layer for both."""
