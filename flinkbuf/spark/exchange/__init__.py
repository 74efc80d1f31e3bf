"""`exchange`: records meet by key, through Spark's shuffle or from task to task."""
