"""Google Cloud's APIs for the real terraform and gcloud: a mock, and what was deployed to it."""
