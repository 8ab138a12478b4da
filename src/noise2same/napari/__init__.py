"""The plugin for napari: widgets, sample data, a reader and writers, which napari.yaml names."""
