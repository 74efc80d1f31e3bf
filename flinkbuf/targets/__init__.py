"""Where a job runs: threads or processes; each starts task managers."""
