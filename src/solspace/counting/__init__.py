"""How many solutions a problem has, with an interval; log Z of any target."""
