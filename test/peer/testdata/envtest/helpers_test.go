package envtest

// parseWebhook reads the configurations in the paths of the options.
func parseWebhook(options *WebhookInstallOptions) error { return options.PrepWithoutInstalling() }
