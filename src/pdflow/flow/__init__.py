"""The normalizing flow: bijections, transformation units, augmentation, filters."""
