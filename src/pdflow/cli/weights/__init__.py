"""Commands for weight files: import them from elsewhere, export them to elsewhere."""
