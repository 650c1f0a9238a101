"""Who somebody is: the text of a token comes in, a caller with a role and projects goes out, or one refusal.

People, projects and tokens that are issued here are in the store; tokens of an OIDC provider are checked by
its public keys. It refuses to know HTTP, and what a caller may do with a job.
"""
