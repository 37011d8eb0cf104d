"""Tables as they come: which columns there are, of what kind, how they are read, and what they are encoded by.

spec.py         what is asked of a table, and what its columns turn out to be
kinds.py        the kind of a column by its type, or by its first cells
columns.py      Arrow columns become numbers and codes
typed_file.py   one file of typed columns: parquet_file.py, arrow_file.py
text_file.py    one CSV file, column by column
opened.py       the files of a table by their formats
dressed.py      decimal commas; numbers and dates that nobody reads
weights.py      the column that says how much rows count
source.py       one file or several as a source of rows; open_table is where to begin
plan_file.py    the TOML file that overrides the plan
encoding.py     the encoder of a run: fitted on the workers, kept in the store
"""

from pipeline.tables.source import TableSource, open_table
from pipeline.tables.spec import TableRequest

__all__ = ["TableRequest", "TableSource", "open_table"]
