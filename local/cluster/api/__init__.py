"""How the cluster is spoken to over HTTP: paths, representations, lists, watches, patches, discovery."""
