"""Points, polygons and grids, for the extra `spatial`: from a point pattern to an intensity, and from a model to maps.

geopandas, shapely and xarray are imported when a function is called, never before.
"""

from knotwise.spatial.cell_size import CellChoice, choose_cell
from knotwise.spatial.counting import Cells, count_points, predict_total
from knotwise.spatial.grids import predict_grid

__all__ = ["CellChoice", "Cells", "choose_cell", "count_points", "predict_grid", "predict_total"]
