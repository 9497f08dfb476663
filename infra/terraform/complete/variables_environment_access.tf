# The same as of ../modules/environment, which checks them.

variable "gke_sa_name" {
  description = "Name of the nodes' Google account."
  type        = string
  default     = "gke-sa"
}

variable "gke_sa_roles" {
  description = "Roles of the nodes' account in the project, with or without roles/ in front. Default: what GKE's own agents on a node need, and pulling images. (The public environment had storage.objectAdmin: every bucket, for every pod.)"
  type        = list(string)
  default     = ["roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader"]
}

variable "tpu_sa_name" {
  description = "Name of the training workloads' Kubernetes account, and of their Google account when one is made."
  type        = string
  default     = "cloud-tpu-sa"
}

variable "create_tpu_google_service_account" {
  description = "Whether the workloads get a Google account called tpu_sa_name beside their principal, for pods whose Kubernetes account carries iam.gke.io/gcp-service-account."
  type        = bool
  default     = false
}

variable "tpu_sa_roles" {
  description = "Roles of the workloads in the project, with or without roles/ in front. The bucket is granted by itself. (The public environment had storage.objectAdmin here.)"
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
  description = "Whether the bucket is deleted with everything in it. If not, Terraform refuses while it holds anything."
  type        = bool
  default     = true
}

variable "bucket_versioning" {
  description = "Whether the bucket keeps old versions of objects. Off: checkpoints are written anew all the time, and every version is billed."
  type        = bool
  default     = false
}

variable "bucket_soft_delete_seconds" {
  description = "How long deleted objects can be restored, in seconds, and are billed. 0: not at all; 604800: Google's default of a week."
  type        = number
  default     = 0
}

variable "create_tensorboard" {
  description = "Whether a Vertex AI TensorBoard is made. It costs money while it is there."
  type        = bool
  default     = false
}

variable "tensorboard_region" {
  description = "Region of the TensorBoard. Vertex AI does not offer it everywhere."
  type        = string
  default     = "us-central1"
}

variable "tensorboard_name" {
  description = "Display name of the TensorBoard; empty means the cluster's name and -tensorboard."
  type        = string
  default     = ""
}
