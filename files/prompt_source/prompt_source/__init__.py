"""Time to first token by where a prompt's KV came from, a stat logger for vLLM.

vLLM counts cached and offloaded tokens, and it measures times to first token, but not one by the
other: whether an offloaded prompt is answered sooner than a computed one cannot be told from it.
"""
