"""What makes tasks a job: graphs, and who runs them."""
