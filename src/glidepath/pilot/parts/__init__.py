"""What is packed into the pilot's one file: modules of the standard library only, for Python 3.6 and later.

They import each other and nothing else of ours, and one for a kind of pool only when that kind is asked for.
"""
