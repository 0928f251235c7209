"""`python -m jobs`, the same as `elmo`."""

from jobs.cli import main

if __name__ == "__main__":
    main()
