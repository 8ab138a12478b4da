"""The paper's own room: data sets, analysis and reproduction of its tables and figures."""
