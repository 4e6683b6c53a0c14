"""The geometry of solutions of one problem: their number near given weights, ways between them, how far chains travel."""
