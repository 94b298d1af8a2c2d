"""The packages of the extra `spatial`, or what to install."""

from __future__ import annotations

from knotwise.errors import KnotwiseError

__all__ = ["MissingSpatialPackageError", "require_spatial"]


class MissingSpatialPackageError(KnotwiseError, ImportError):
    """geopandas, shapely or xarray is not installed."""


def require_spatial() -> None:
    """Import the packages, or say how to get them; called at the door of each public function."""
    try:
        import geopandas  # noqa: F401
        import shapely  # noqa: F401
        import xarray  # noqa: F401
    except ImportError as error:
        raise MissingSpatialPackageError(
            f"Point patterns and grids need geopandas, shapely and xarray, and {error.name} is not installed here. To "
            "have them: pip install 'knotwise[spatial]'"
        ) from error
