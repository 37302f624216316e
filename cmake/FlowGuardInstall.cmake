# Filled in by the install rules of the core library.
