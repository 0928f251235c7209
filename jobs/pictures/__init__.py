"""Pictures of features and of what was learned from them."""
