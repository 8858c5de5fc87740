// Package admission implements admission webhooks: HTTP handlers that the API server calls before
// it stores or deletes an object.
//
// A [Webhook] serves reviews of the versions v1 and v1beta1 and passes them to its [Handler]. The
// usual handlers decode the object and call methods with its Go type: [WithDefaulter] makes one of
// a [Defaulter], which changes objects, and [WithValidator] one of a [Validator], which refuses
// them. Other handlers use a [Decoder] and answer with [Allowed], [Denied], [Patched],
// [PatchResponseFromRaw] or [Errored].
//
// A webhook is registered with the server of package webhook, usually by the builder, or serves by
// itself as a [StandaloneWebhook].
package admission
