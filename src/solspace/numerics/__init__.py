"""Special functions, quadrature, roots, random streams, progress: no physics here."""
