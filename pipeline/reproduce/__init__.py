"""Papers, reproduced: what is run for each table and figure, and the page that shows ours beside what was printed.

Nothing here knows a paper: ``registry`` has all of them, those of ``ikmap_papers`` and those of other packages.
``paper`` is what a paper is, ``form`` how one of its experiments is made and shown; ``compared`` is the form that holds
a table of systems against printed numbers. ``results`` lays what the runs gave beside what was printed; ``page`` and
``terminal`` show all of it. Making the runs is the command's matter (``flows/runs/paper_runs.py``).
"""
