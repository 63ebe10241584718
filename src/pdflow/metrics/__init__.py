"""Numbers that judge anybody's output; nothing here knows the model."""
