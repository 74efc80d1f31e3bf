"""One task: its mailbox, its chain of operators, its input."""
