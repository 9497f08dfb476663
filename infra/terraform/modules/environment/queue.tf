# Kueue's flavors and quotas, as values of the chart infra/helm: a flavor for the usual sizes of every generation, and a
# quota for tpu_type and for each of `quotas`.

variable "num_of_chips" {
  description = "Chips of tpu_type in the queue. null: those of the static pools, at least of one slice."
  type        = number
  default     = null

  validation {
    condition     = var.num_of_chips == null || try(var.num_of_chips >= 0 && floor(var.num_of_chips) == var.num_of_chips, false)
    error_message = "num_of_chips: must be a whole number of chips, 0 or more."
  }
}

variable "quotas" {
  description = "More chips in the queue, by the public name of a slice: { v6e-16 = 64 }."
  type        = map(number)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for chips in var.quotas : chips >= 0 && floor(chips) == chips])
    error_message = "quotas: each must be a whole number of chips, 0 or more: { v6e-16 = 64 }."
  }
}

locals {
  chips  = coalesce(var.num_of_chips, max(1, var.num_tpu_pools) * local.slice.chips)
  quotas = concat([{ flavor = var.tpu_type, chips = local.chips }], [for name, chips in var.quotas : { flavor = name, chips = chips }])

  # Powers of two and three times those; there are a thousand other sizes.
  usual_counts = flatten([for power in range(15) : [tostring(pow(2, power)), tostring(3 * pow(2, power))]])
  usual        = [for name in keys(local.slices) : name if contains(local.usual_counts, split("-", name)[1])]
  # A slice of two public names gets one flavor, named as the queue names it.
  names_by_slice = {
    for name in concat(local.quotas[*].flavor, local.usual) :
    "${local.slices[name].accelerator} ${local.slices[name].topology}" => name...
    if can(local.slices[name])
  }
}

output "queue" {
  description = "Flavors and quotas of Kueue's queue, as the chart takes them."
  value = {
    flavors = [
      for names in values(local.names_by_slice) :
      { name = names[0], accelerator = local.slices[names[0]].accelerator, topology = local.slices[names[0]].topology }
    ]
    quotas = local.quotas
  }

  precondition {
    condition     = length(setsubtract(local.quotas[*].flavor, keys(local.slices))) == 0
    error_message = "quotas: has no TPU type ${join(", ", setsubtract(local.quotas[*].flavor, keys(local.slices)))}; modules/environment/catalogue.json has all names."
  }
  precondition {
    condition     = length(setsubtract(local.quotas[*].flavor, [for names in values(local.names_by_slice) : names[0]])) == 0
    error_message = "quotas: names a slice twice, by two of its names, or the slice of tpu_type; name each once."
  }
}
