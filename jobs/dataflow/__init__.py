"""The dump on Google Cloud Dataflow: GPU modes, checks before submission, image and Flex Template."""
