"""Store a trace on disk: a folder or archive of Parquet parts with a manifest, written,
opened and queried."""
