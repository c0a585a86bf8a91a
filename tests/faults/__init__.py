"""What happens to a running installation when something breaks: `python -m tests.faults` prints one row for each fault.

Two people store memories and read all the time while the fault happens. A row says how many writes were acknowledged
and how many of those are missing afterwards, how long nobody got an answer, and what people were told meanwhile.
"""
