"""All that is about the paper alone: its data sets, the analysis of its theorems, and its tables and figures."""
