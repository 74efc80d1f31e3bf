"""The task manager: what runs the tasks of a process, and decides which."""
