"""The job master and its parts: what decides for one job. None of it does anything itself."""
