"""Writers of tiny GGUF models, built on demand, so the engine's tests run without a download."""
