"""What a record is: type information, schemas, inference, rows and other values."""
