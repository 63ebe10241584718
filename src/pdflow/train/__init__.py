"""Training: data, recipes and a loop that can be read in one sitting."""
