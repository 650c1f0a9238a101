"""All that people can ask over HTTP: one table, of which routes, the description and cases of tests are made.

Whoever adds an operation adds a row to one of these, and nowhere else.
"""

from glidepath.serve.jobops import JOB_OPERATIONS
from glidepath.serve.noticeops import NOTICE_OPERATIONS
from glidepath.serve.peopleops import PEOPLE_OPERATIONS
from glidepath.serve.windowops import WINDOW_OPERATIONS

OPERATIONS = (*JOB_OPERATIONS, *WINDOW_OPERATIONS, *PEOPLE_OPERATIONS, *NOTICE_OPERATIONS)
