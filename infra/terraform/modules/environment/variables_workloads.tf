variable "more_namespaces" {
  description = "Other namespaces of training workloads. In each of them, pods of the ServiceAccount tpu_sa_name have the same permissions as in tpu_namespace. The build script makes the namespaces, with a queue each."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition = length(distinct(concat([var.tpu_namespace], var.more_namespaces))) == 1 + length(var.more_namespaces) && alltrue([
      for namespace in var.more_namespaces : can(regex("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", namespace))
    ])
    error_message = "more_namespaces: must be different namespaces, each 1 to 63 lower-case letters, digits and hyphens with a letter or digit at both ends, without ${var.tpu_namespace} (tpu_namespace)."
  }
}

variable "image_repository_name" {
  description = "Name of an Artifact Registry repository to create for the users' images, in the cluster's region; its nodes may pull from it. Empty: none. The destroy build keeps it unless _DELETE_ARTIFACTS=true."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = can(regex("^([a-z]([-a-z0-9]{0,61}[a-z0-9])?)?$", var.image_repository_name))
    error_message = "image_repository_name: must be at most 63 lower-case letters, digits and hyphens, beginning with a letter, or empty."
  }
}
