"""The Spark stage that runs a job."""
