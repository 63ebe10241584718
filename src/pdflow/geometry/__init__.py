"""Pure functions on points: frame, neighbours, patches, sampling, triangles."""
