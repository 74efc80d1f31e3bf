"""One value as bytes: a codec for each kind of type."""
