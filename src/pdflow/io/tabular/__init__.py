"""What formats that are tables of points share: rows of text, columns and their types."""
