// Package encryption encrypts the objects of a control plane in its storage, as a configuration file of kube-apiserver
// says: with keys in the file, or with a KMS plugin.
//
// It is a package of its own because the client of KMS plugins makes programs larger.
//
// The library of kube-apiserver reads the file.
package encryption

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig/metrics"
	"k8s.io/apiserver/pkg/storage/value"

	"flyball.dev/apiserver"
)

// Encryption is the encryption of a control plane. Its fields are for the options of the control plane.
type Encryption struct {
	Transformers value.ResourceTransformers
	// ReadyChecks fail if a KMS plugin does not work. As in kube-apiserver, they are checks of /readyz and /healthz, and not of
	// /livez.
	ReadyChecks []apiserver.ReadyCheck

	cancel context.CancelFunc
	reload sync.WaitGroup
}

// serverID identifies the server in the metrics of KMS plugins.
const serverID = "flyball"

// Load reads a configuration file, an EncryptionConfiguration of apiserver.config.k8s.io/v1. With reload, the encryption
// follows changes of the file: it looks at the file every minute, and goes on with the last good configuration if the
// file is invalid. The caller must close the encryption after the control plane has ended.
//
//upstream:k8s.io/apiserver/pkg/server/options.EtcdOptions.maybeApplyResourceTransformers
func Load(file string, reload bool) (*Encryption, error) {
	ctx, cancel := context.WithCancel(context.Background())
	first, closeFirst := context.WithCancel(ctx) // ends when another configuration replaces the first
	config, err := read(first, file, reload)
	if err != nil {
		closeFirst()
		cancel()
		return nil, err
	}
	metrics.RecordEncryptionConfigLastConfigInfo(serverID, config.EncryptionFileContentHash)
	e := &Encryption{cancel: func() { closeFirst(); cancel() }}
	if !reload {
		e.Transformers = encryptionconfig.StaticTransformers(config.Transformers)
		for _, c := range config.HealthChecks {
			e.addCheck(c)
		}
		return e, nil
	}
	dynamic := encryptionconfig.NewDynamicTransformers(config.Transformers, config.HealthChecks[0], closeFirst, config.KMSCloseGracePeriod)
	e.Transformers = dynamic
	e.addCheck(dynamic)
	f := &follower{file: file, hash: config.EncryptionFileContentHash, transformers: dynamic}
	e.reload.Go(func() { f.run(ctx) })
	return e, nil
}

// read reads a configuration file. The transformers end with the context. Errors name the file, and have no keys in their
// messages.
func read(ctx context.Context, file string, reload bool) (*encryptionconfig.EncryptionConfiguration, error) {
	config, err := encryptionconfig.LoadEncryptionConfig(ctx, file, reload, serverID)
	if withoutKind(err) {
		err = errors.New("apiVersion and kind must be apiserver.config.k8s.io/v1 and EncryptionConfiguration")
	}
	if err != nil {
		return nil, fmt.Errorf("encryption configuration %s: %w", file, err)
	}
	return config, nil
}

// withoutKind reports whether an error says that a file has no kind or no version. Such an error has the whole file in its
// message, with the keys.
func withoutKind(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if runtime.IsMissingKind(err) || runtime.IsMissingVersion(err) {
			return true
		}
	}
	return false
}

func (e *Encryption) addCheck(c healthz.HealthChecker) {
	run := func(ctx context.Context) error { return check(ctx, c) }
	e.ReadyChecks = append(e.ReadyChecks, apiserver.ReadyCheck{Name: c.Name(), Check: run, Healthz: true})
}

// Close ends the connections to KMS plugins, and the reloads.
func (e *Encryption) Close() {
	e.cancel()
	e.reload.Wait()
}
