// Where the manifests of JobSet and Kueue come from: their published Go modules hold config/, and go.sum holds the
// checksums. Nothing is compiled. Why modules: docs/decisions/0008-jobset-and-kueue.md. Adding a version:
// ./versions.py --add sigs.k8s.io/jobset@vX.Y.Z
module tpu-provisioner.local/third-party

go 1.24
