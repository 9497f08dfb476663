module "functions_archive" {
  source = "../.."

  path = "${path.root}/build/functions.zip"
}
