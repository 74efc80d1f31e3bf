"""Operators, the functions of users in them, and the chain that they form."""
