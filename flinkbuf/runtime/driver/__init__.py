"""The process that runs the job master, and does what it decides."""
