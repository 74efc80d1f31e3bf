"""Nexmark: an auction site's persons, auctions and bids, and what 24 queries make of them.

The queries are plain DataStream programs, each in a file of its own, q0.py to q23.py. From bench/:

    python -m nexmark q5 --events 100000 --target local --parallelism 2

The rules are those of https://github.com/nexmark/nexmark; where it draws by chance, this draws from a seed, so that
everybody who follows the rules has the same events.
"""
