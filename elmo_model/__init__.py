"""The ELMo biLM in torch: characters, token encoder, projected LSTMs, layer mixing, weights, pretraining."""
