// Where the manifests of JobSet and Kueue come from: their published Go modules hold config/, and go.sum holds the
// checksums. Nothing is compiled. Why modules: docs/decisions/deployment.md. Adding a version:
// ./versions.py --add sigs.k8s.io/jobset@vX.Y.Z
module tpu-provisioner.local/third-party

go 1.24
