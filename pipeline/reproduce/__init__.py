"""Papers, reproduced: what is run for each table and figure, and the page that shows ours beside what was printed.

Nothing here knows a paper: each is a folder of ``papers/`` that says everything about itself. ``paper`` is what a
paper is, ``form`` how one of its experiments is made and shown; ``compared``, ``sizes`` and ``streams`` are
forms that many papers share. ``results`` lays what the runs gave beside what was printed; ``page`` and ``terminal``
show all of it. Making the runs is the command's matter (``flows/runs/paper_runs.py``).
"""
