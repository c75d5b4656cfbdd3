"""Charts as SVG: a file for each; drawn by hand, since each library is a hundred times what these need."""
