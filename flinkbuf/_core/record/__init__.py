"""One record, or a batch, as bytes; key groups and channel selectors."""
