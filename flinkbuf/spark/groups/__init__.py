"""Groups of a DataFrame's rows, each as an iterator of Arrow batches."""
