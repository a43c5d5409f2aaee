"""The torture lab: it runs workers on a separate store, causes faults, and checks the answers that the workers got."""
