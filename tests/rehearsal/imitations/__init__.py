"""What stands in for the absent: Hugging Face's hub, NVIDIA's repository, another machine."""
