"""Who pays for what: times and amounts come in, charges, balances and rights go out as values.

It refuses to know clocks, stores and clusters. Charges are whole numbers, so that sums come out equal.
"""
