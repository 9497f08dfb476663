"""Objects, their history and how they are selected. No HTTP and no behaviour of any kind."""
