"""The async operator and its parts, without Spark."""
