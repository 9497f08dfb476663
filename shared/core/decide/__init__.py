"""The tables: from facts to one `Decision`. No other package constructs a `Decision`."""
