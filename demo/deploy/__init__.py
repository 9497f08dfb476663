"""What Terraform deploys to a mock of Google Cloud, and whether its parts agree."""
