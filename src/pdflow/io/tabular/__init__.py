"""Shared by formats that are tables of points: text rows, columns and their types."""
