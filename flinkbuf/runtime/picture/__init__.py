"""A job as its page, the REST API and the terminal show it."""
