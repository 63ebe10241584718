"""The few hot loops, each behind a plain signature."""
