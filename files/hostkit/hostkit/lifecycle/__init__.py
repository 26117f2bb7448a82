"""The service from its first start to its removal: started, followed, switched, taken over."""
