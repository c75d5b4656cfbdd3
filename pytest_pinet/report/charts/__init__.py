"""Charts as SVG, one file each. Drawn without a chart library, since libraries are about a hundred times larger."""
