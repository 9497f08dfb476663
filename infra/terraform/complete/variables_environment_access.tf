# The same as of ../modules/environment, which checks them.

variable "gke_sa_name" {
  description = "Name of the nodes' Google account."
  type        = string
  default     = "gke-sa"
}

variable "gke_sa_roles" {
  description = "Roles of the nodes' account in the project, with or without roles/ in front. Default: the rights that GKE's agents on a node need, and the right to pull images. (The public environment had storage.objectAdmin, which opens every bucket to every pod.)"
  type        = list(string)
  default     = ["roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader"]
}

variable "tpu_sa_name" {
  description = "Name of the training workloads' Kubernetes account, and of their Google account when one is made."
  type        = string
  default     = "cloud-tpu-sa"
}

variable "create_tpu_google_service_account" {
  description = "Whether the workloads also get a Google account with the name tpu_sa_name, for pods whose Kubernetes account has the annotation iam.gke.io/gcp-service-account."
  type        = bool
  default     = false
}

variable "tpu_sa_roles" {
  description = "Roles of the workloads in the project, with or without roles/ in front. The rights on the bucket are granted separately. (The public environment had storage.objectAdmin here.)"
  type        = list(string)
  default     = ["roles/logging.logWriter"]
}

variable "tpu_namespace" {
  description = "Namespace of the training workloads. The build script makes it."
  type        = string
  default     = "tpu-training"
}

variable "artifact_repository_bucket_name" {
  description = "Name of the bucket for code, data and checkpoints; unique in the world."
  type        = string
}

variable "force_destroy" {
  description = "Whether the bucket is deleted with everything in it. If not, Terraform refuses to delete a bucket that is not empty. The destroy build keeps the bucket unless _DELETE_ARTIFACTS=true."
  type        = bool
  default     = false
}

variable "bucket_versioning" {
  description = "Whether the bucket keeps old versions of objects. Default: no, because checkpoints are often overwritten and every version is billed. Deleted objects can be restored for bucket_soft_delete_seconds."
  type        = bool
  default     = false
}

variable "bucket_soft_delete_seconds" {
  description = "Seconds for which deleted objects can be restored and are billed. 0: not at all. 604800: Google's default of a week."
  type        = number
  default     = 604800
}

variable "create_tensorboard" {
  description = "Whether a Vertex AI TensorBoard is created. It costs money while it exists."
  type        = bool
  default     = false
}

variable "tensorboard_region" {
  description = "Region of the TensorBoard. Vertex AI does not offer it everywhere."
  type        = string
  default     = "us-central1"
}

variable "tensorboard_name" {
  description = "Display name of the TensorBoard. Empty: the cluster's name and -tensorboard."
  type        = string
  default     = ""
}
