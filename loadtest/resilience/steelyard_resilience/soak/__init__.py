"""The soak: constant load and churn for half an hour, and a search for leaks.

Data flows one way: timetable (the steps and their times) -> session (load, churn, I/O) -> readings ->
leaks -> page, plot.
"""
