data "archive_file" "functions" {
  type        = "zip"
  output_path = var.path

  dynamic "source" {
    for_each = local.sources
    content {
      filename = source.key
      content  = file(source.value)
    }
  }
}
