"""The same work in other frameworks, beside roofbench: tools/peers."""
