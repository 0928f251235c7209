"""The command line and the runnable jobs, where models and the pipeline meet."""
