"""The journal: what each cycle saw, remembered, decided and did. Values come in, small rows go out, and back.

`codec` turns core values into plain ones, `delta` finds what changed, `frames` lays out a cycle, `journal`
keeps it. Everything people see is read from here; it refuses to know how anything is decided or done.
"""
