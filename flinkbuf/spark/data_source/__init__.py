"""The data source `flinkbuf` of Spark."""
