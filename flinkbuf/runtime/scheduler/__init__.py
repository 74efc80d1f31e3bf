"""The executions of a job: where and when each task runs."""
