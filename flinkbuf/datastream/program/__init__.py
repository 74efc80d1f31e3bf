"""How a program becomes a job."""
