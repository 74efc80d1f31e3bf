"""One task of a job: its operators, their time and state, its inputs and outputs. It knows no job."""
