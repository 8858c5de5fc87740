package main

import (
	"errors"

	"github.com/spf13/pflag"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/encryption"
)

// encryptionFlags are the flags of the encryption of stored objects, with the names that kube-apiserver gives them.
type encryptionFlags struct {
	file   string
	reload bool
}

// add adds the flags to a command.
func (f *encryptionFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "encryption-provider-config", "",
		"the file with the EncryptionConfiguration by which stored objects are encrypted")
	flags.BoolVar(&f.reload, "encryption-provider-config-automatic-reload", false,
		"follow changes of the file of --encryption-provider-config")
}

// apply sets the encryption of a control plane, and returns a function that ends it.
func (f *encryptionFlags) apply(o *controlplane.Options) (func(), error) {
	if f.file == "" {
		if f.reload {
			return nil, errors.New("--encryption-provider-config-automatic-reload needs --encryption-provider-config")
		}
		return func() {}, nil
	}
	e, err := encryption.Load(f.file, f.reload)
	if err != nil {
		return nil, err
	}
	o.Transformers, o.ReadyChecks = e.Transformers, e.ReadyChecks
	return e.Close, nil
}
