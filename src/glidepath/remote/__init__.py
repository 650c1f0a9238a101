"""Commands carried to where they are run, on this machine or by ssh: checked words come in, how they ended
goes out. It refuses to know what the commands mean.
"""
