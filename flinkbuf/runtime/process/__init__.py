"""What the operating system tells this process, and what it does then."""
