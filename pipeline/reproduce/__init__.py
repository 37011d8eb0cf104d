"""The experiments of the Isolation Kernel paper: what is run for each table and figure, and the page that shows it.

``experiments.toml`` says what the systems are, in options of our commands; ``published.toml`` what was printed.
``paper`` reads both and lists the runs; ``results`` lays what they gave beside what was printed; ``pictures`` draws the
figures; ``page`` and ``text`` show all of it. Making the runs is the command's matter (``flows/reproduce_runs.py``).
"""
