"""What a release is built of: vLLM, its patches, our packages, plugins; its bill of materials."""
