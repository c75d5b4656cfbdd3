"""What a developer wants gated: kernels, modules, boot settings; read and checked before a lab is touched."""
