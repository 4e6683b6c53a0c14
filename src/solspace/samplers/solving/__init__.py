"""Any solution, as far and as fast as possible: reinforced message passing first, and what else helps."""
