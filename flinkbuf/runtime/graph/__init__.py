"""The program as graphs: transformations, stream graph, job graph, and the plan that a job master reads."""
