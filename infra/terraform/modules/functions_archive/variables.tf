variable "path" {
  description = "Path of the zip file to write, such as build/functions.zip. Its folder is made if it is absent."
  type        = string

  validation {
    condition     = endswith(var.path, ".zip")
    error_message = "path: must end in .zip (got '${var.path}')."
  }
}
