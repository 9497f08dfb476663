# What infra/build/stage_functions.py packs, by the name in the archive. A test compares the two.
locals {
  root = "${path.module}/../../../.."
  sources = merge(
    {
      "main.py"          = "${local.root}/functions/main.py"
      "requirements.txt" = "${local.root}/requirements.txt"
    },
    { for each in fileset("${local.root}/shared", "**/*.{json,py}") : "shared/${each}" => "${local.root}/shared/${each}" },
  )
}
