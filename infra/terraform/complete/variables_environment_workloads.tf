# The same as of ../modules/environment, which checks them.

variable "more_namespaces" {
  description = "Other namespaces of training workloads. In each of them, pods of the Kubernetes account tpu_sa_name have the same rights as in tpu_namespace. The build script makes the namespaces, with a queue each."
  type        = list(string)
  default     = []
}

variable "image_repository_name" {
  description = "Name of an Artifact Registry repository to create for the users' images, in the cluster's region; its nodes may pull from it. Empty: none. The destroy build keeps it unless _DELETE_ARTIFACTS=true."
  type        = string
  default     = ""

  validation {
    condition     = !contains(["${var.name}-images", "${var.name}-functions"], var.image_repository_name)
    error_message = "image_repository_name: give another name than ${var.name}-images and ${var.name}-functions, which hold this deployment's own images."
  }
}
