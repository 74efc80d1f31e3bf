"""DataFrames and RDDs as the ends of a job."""
