"""The paper's experiments, reproduced: `knotwise reproduce` runs them and sets our numbers beside the paper's.

`data` and `experiments` say what is run, `runs` runs it, `store` keeps the rows, `published` has the paper's numbers;
`tables`, `claims`, `figures` and `report` are functions of the rows alone; `reproduce` is the whole.
"""
