"""Tables in lakes: data files in Parquet, and a log or metadata that say which of them count."""
