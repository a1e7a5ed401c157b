"""The soak: constant load and churn for half an hour, and whether anything leaks.

Data flows one way: timetable (what is done when) -> session (load, churn, I/O) -> readings ->
leaks -> page, plot.
"""
