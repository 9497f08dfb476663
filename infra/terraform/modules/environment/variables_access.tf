variable "node_service_account" {
  description = "E-mail of the Google service account that nodes run as. infra/bootstrap.sh makes NAME-nodes."
  type        = string
}

variable "tpu_sa_name" {
  description = "Name of the training workloads' ServiceAccount."
  type        = string
  default     = "cloud-tpu-sa"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][-a-z0-9]{4,28}[a-z0-9]$", var.tpu_sa_name))
    error_message = "tpu_sa_name: must be 6 to 30 lower-case letters, digits and hyphens, beginning with a letter."
  }
}

variable "tpu_namespace" {
  description = "Namespace of the training workloads. The build script makes it."
  type        = string
  default     = "tpu-training"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", var.tpu_namespace))
    error_message = "tpu_namespace: must be 1 to 63 lower-case letters, digits and hyphens, a letter or digit at both ends."
  }
}

variable "artifact_repository_bucket_name" {
  description = "Name of the bucket for code, data and checkpoints; unique in the world."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][-_.a-z0-9]{1,61}[a-z0-9]$", var.artifact_repository_bucket_name))
    error_message = "artifact_repository_bucket_name: must be 3 to 63 lower-case letters, digits, '-', '_' and '.', a letter or digit at both ends."
  }
}

variable "force_destroy" {
  description = "Whether the bucket is deleted with everything in it. If not, Terraform refuses to delete a bucket that is not empty. The destroy build keeps the bucket unless _DELETE_ARTIFACTS=true."
  type        = bool
  default     = false
  nullable    = false
}

variable "bucket_versioning" {
  description = "Whether the bucket keeps old versions of objects. Default: no, because checkpoints are often overwritten and every version is billed. Deleted objects can be restored for bucket_soft_delete_seconds."
  type        = bool
  default     = false
  nullable    = false
}

variable "bucket_soft_delete_seconds" {
  description = "Seconds for which deleted objects can be restored and are billed. 0: not at all. 604800: Google's default of a week."
  type        = number
  default     = 604800
  nullable    = false

  validation {
    condition     = var.bucket_soft_delete_seconds == 0 || (var.bucket_soft_delete_seconds >= 604800 && var.bucket_soft_delete_seconds <= 7776000)
    error_message = "bucket_soft_delete_seconds: give 0, or at least 604800 (7 days) and at most 7776000 (90 days)."
  }
}

variable "create_tensorboard" {
  description = "Whether a Vertex AI TensorBoard is created. It costs money while it exists."
  type        = bool
  default     = false
  nullable    = false
}

variable "tensorboard_region" {
  description = "Region of the TensorBoard. Vertex AI does not offer it everywhere."
  type        = string
  default     = "us-central1"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.tensorboard_region))
    error_message = "tensorboard_region: must be a region such as us-central1."
  }
}

variable "tensorboard_name" {
  description = "Display name of the TensorBoard. Empty: the cluster's name and -tensorboard."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = length(var.tensorboard_name) <= 128
    error_message = "tensorboard_name: give at most 128 characters."
  }
}
