package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/kubeflags"
)

// serverOptions returns the options of the control plane for kube-apiserver's flags. $FLYBALL_CONTROLLERS selects the
// controllers; the default is none.
func serverOptions(fs *pflag.FlagSet) (controlplane.Options, error) {
	f := kubeflags.Set{FlagSet: fs}
	if err := validateRequired(f); err != nil {
		return controlplane.Options{}, err
	}
	if f.Text("tls-cert-file") == "" && f.Text("tls-private-key-file") == "" {
		if err := useCertDir(f); err != nil {
			return controlplane.Options{}, fmt.Errorf("error creating self-signed certificates: %w", err)
		}
	}
	o, err := f.Options()
	if err != nil {
		return controlplane.Options{}, err
	}
	kubeflags.AsProgram(&o)
	if err := o.SelectControllersByVariable(controlplane.NoControllers); err != nil {
		return controlplane.Options{}, err
	}
	return o, nil
}

// validateRequired checks the flags that kube-apiserver requires.
func validateRequired(f kubeflags.Set) error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(f.Texts("etcd-servers")) == 0 {
		add("--etcd-servers must be specified")
	}
	if port := f.Number("secure-port"); port < 1 || port > 65535 {
		add("--secure-port %d must be between 1 and 65535, inclusive. It cannot be turned off with 0", port)
	}
	if len(f.Texts("service-account-issuer")) == 0 {
		add("service-account-issuer is a required flag")
	}
	if len(f.Texts("service-account-key-file")) == 0 {
		add("either `--service-account-key-file` or `--service-account-signing-endpoint` must be set")
	}
	if f.Text("service-account-signing-key-file") == "" || len(f.Texts("service-account-issuer")) == 0 {
		add("--service-account-signing-key-file and --service-account-issuer are required flags")
	}
	return errors.Join(errs...)
}

// useCertDir sets the flags of the serving certificate to the certificate in --cert-dir. It creates the certificate if
// necessary.
func useCertDir(f kubeflags.Set) error {
	certificate, key, err := ensureServingCertificate(f.Text("cert-dir"), f.Text("bind-address"))
	if err != nil {
		return err
	}
	return errors.Join(f.FlagSet.Set("tls-cert-file", certificate), f.FlagSet.Set("tls-private-key-file", key))
}
