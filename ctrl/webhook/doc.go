// Package webhook serves admission, conversion and other webhooks over HTTPS.
//
// A manager has a [Server], which it starts if it is asked for it; webhooks for Go types are
// registered with it by the builder, and others by Register:
//
//	err := ctrl.NewWebhookManagedBy(mgr, &appv1.AppService{}).
//		WithDefaulter(&defaulter{}).
//		WithValidator(&validator{}).
//		Complete()
//	mgr.GetWebhookServer().Register("/check", &webhook.Admission{Handler: &handler{}})
//
// # Certificates
//
// The server reads its certificate and key from the files tls.crt and tls.key in Options.CertDir,
// and again when they change. In a cluster, cert-manager puts them there.
//
// # Development
//
// Two options, which are Flyball's own, make webhooks work without certificate files and manifests.
// With Options.SelfSigned the server signs its own certificate; so it does without the option for a
// manager of a control plane in the same process. With Options.Install the manager also creates the
// objects that make the API server call its webhooks: a MutatingWebhookConfiguration, a
// ValidatingWebhookConfiguration and the conversion of CustomResourceDefinitions.
package webhook
