"""The only package that imports llama_cpp. No ctypes object leaves it."""
