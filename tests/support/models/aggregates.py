"""What tests of states and windows aggregate with."""


class Total:
    """The sum, as an AggregateFunction in shape."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, one, other):
        return one + other
