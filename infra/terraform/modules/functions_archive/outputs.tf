output "path" {
  description = "Path of the archive: what functions_archive of the module provisioner takes."
  value       = data.archive_file.functions.output_path
}
