"""The SSD tier of the KV cache, kept within its quota."""
