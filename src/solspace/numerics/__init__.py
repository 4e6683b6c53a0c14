"""Numbers without physics: special functions, quadrature, roots with a status, random streams."""
